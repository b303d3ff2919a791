"""The CPU limit of a control group: the nearest group that has one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelens.capture.cpu_limit import CpuLimit, LimitPeriods


def limit(folder: Path, membership: str, **counts: tuple[int, int]) -> CpuLimit:
    """Of process 7; `counts` by folder below the groups, with `__` for `/`."""
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "7" / "cgroup").write_text(membership)
    for name, (periods, stopped) in counts.items():
        place = folder / "groups" / name.replace("__", "/")
        place.mkdir(parents=True, exist_ok=True)
        text = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {stopped}\nthrottled_usec 9\n"
        (place / "cpu.stat").write_text(text)
    return CpuLimit(7, folder / "proc", folder / "groups")


def test_the_nearest_group_with_a_limit_counts_and_is_kept(tmp_path: Path) -> None:
    counts = limit(tmp_path, "0::/job/step/task\n", job=(90, 9), job__step=(50, 20), job__step__task=(0, 0))
    assert counts.read() == LimitPeriods(50, 20)
    (tmp_path / "groups/job/step/cpu.stat").write_text("nr_periods 60\nnr_throttled 25\n")
    assert counts.read() == LimitPeriods(60, 25)


def test_the_first_version_of_control_groups_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "groups" / "cpu,cpuacct" / "job"
    counts = limit(tmp_path, "3:cpu,cpuacct:/job\n1:memory:/other\n")
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("nr_periods 8\nnr_throttled 2\nthrottled_time 5\n")
    assert counts.read() == LimitPeriods(8, 2)


@pytest.mark.parametrize("membership", ["", "nonsense\n", "0::/job\n", "0::/../../etc\n", "2:memory:/job\n"])
def test_without_a_limit_nothing_is_counted(membership: str, tmp_path: Path) -> None:
    assert limit(tmp_path, membership, job=(0, 0)).read() is None
    assert CpuLimit(8, tmp_path / "proc", tmp_path / "groups").read() is None
