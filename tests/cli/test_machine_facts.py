"""What the checks look at: the driver's version as NVML says it, else as the kernel module does."""

from __future__ import annotations

from pathlib import Path

from tracelens.cli.machine_facts import MachineFacts, distribution, read

MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"


def test_the_driver_is_nvmls_else_the_kernel_modules(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(MODULE, encoding="utf-8")
    asked = MachineFacts(torch="no torch", gpus={"driver": "580.1"}, folder=tmp_path, driver_file=file)
    assert asked.driver == "580.1" and asked.facts == {}
    assert MachineFacts(torch={}, gpus={}, folder=tmp_path, driver_file=file).driver == "550.54.15"
    assert MachineFacts(torch={}, gpus={}, folder=tmp_path, driver_file=tmp_path / "none").driver is None


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == "" and distribution("no-such-distribution-of-anybody") is None
