"""What a recording writes into the Run folder, and what it keeps out of it."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from tracelens.capture import environment
from tracelens.capture.inside import rank_files

# --------------------------------------------------------------------------------------- files and surroundings


def test_restarts_get_folders_of_their_own(tmp_path: Path) -> None:
    assert [rank_files.claim_folder(tmp_path, rank).name for rank in (0, 1, 0, 0)] == [
        "rank0",
        "rank1",
        "rank0.2",
        "rank0.3",
    ]


def test_compression_is_complete_and_replaces_the_file(tmp_path: Path) -> None:
    plain = tmp_path / rank_files.trace_name(3, 'node 7"x')
    assert plain.name.startswith("rank3_node_7_x_")
    assert plain.name.endswith(".pt.trace.json")
    content = json.dumps({"traceEvents": list(range(400_000))}).encode()
    plain.write_bytes(content)
    packed = rank_files.compress(plain)
    assert [path.name for path in tmp_path.iterdir()] == [plain.name + ".gz"]
    assert gzip.decompress(packed.read_bytes()) == content


def test_secrets_stay_out_and_git_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    monkeypatch.setenv("NCCL_AUTH_TOKEN", "hidden")
    described = environment.describe({"driver": None, "gpus": None, "gpu_memory_bytes": None})
    assert described["variables"]["TORCH_LOGS"] == "dynamo"
    assert "hidden" not in json.dumps(described)
    assert environment.git(tmp_path) is None
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    found = environment.git(tmp_path)
    assert found is not None
    assert len(found["revision"]) == 40
    assert found["dirty"] is False
