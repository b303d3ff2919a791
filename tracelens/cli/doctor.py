"""`tracelens doctor`: is this machine able to record what we need?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.cli.machine_checks import Check, MachineFacts

MARK = {True: "ok  ", False: "BAD ", None: "note"}


@click.command(short_help="Is this machine able to record what we need?")
@click.option("--calibrate", is_flag=True, help="Measure this machine's launch and copy costs, for better predictions.")
@options.presented("doctor")
def doctor(calibrate: bool, shown: Presentation) -> int:
    """Check Python, PyTorch, driver, profiler permissions, package traps, memory and disk; each with its cure."""
    from tracelens.cli import machine_checks

    with output.progress(say("asking torch")):
        machine = look_around()
    checks = [*machine_checks.checks(machine), *(calibrated() if calibrate else ())]
    bad = [check for check in checks if check.good is False]
    verdict = _verdict(bad)
    document = {"schema_version": 1, "verdict": verdict, "checks": [asdict(check) for check in checks]}
    answer = CommandOutcome(lambda: verdict if shown.quiet else _text(checks, verdict, bad), document)
    output.result(render(shown.renderer.outcome, answer, shown))
    return 1 if bad else 0


def look_around() -> MachineFacts:
    """This machine as it is."""
    from tracelens.capture.hardware_monitor import describe_gpus
    from tracelens.cli import machine_checks, torch_probe

    return machine_checks.MachineFacts(torch=torch_probe.ask(), gpus=describe_gpus(), folder=Path())


def calibrated() -> tuple[Check, ...]:
    """What `--calibrate` measured, and where it is kept; a note where it could not, for the replay has defaults."""
    from tracelens.capture import calibration
    from tracelens.cli.machine_checks import Check

    try:
        with output.progress(say("measuring this machine, some 20 s")):
            measured = calibration.measure()
            path = calibration.write_cache(measured)
    except UsageError as error:
        return (Check("calibration", None, f"not available: {error.message}", error.hint),)
    missing = ", ".join(measured["skipped"])
    constants = calibration.values(measured)
    told = f"{len(constants)} constants of {measured['gpu']} under torch {measured['torch']}: {_highlights(measured)}"
    kept = f"kept in {path}; recordings made from now on carry them"
    return (Check("calibration", True, told, f"{kept}; could not be measured: {missing}" if missing else kept),)


def _highlights(constants: Mapping[str, Any]) -> str:
    shown = (
        ("pinned copies", "pinned_bytes_per_us", 1e3, "GB/s"),
        ("pageable copies", "pageable_bytes_per_us", 1e3, "GB/s"),
        ("pinning on the main thread", "pin_main_bytes_per_us", 1e3, "GB/s"),
        ("a synchronize with nothing to wait for", "sync_issue_ns", 1e3, "µs"),
        ("the profiler per event", "row_overhead_ns", 1e3, "µs"),
    )
    return ", ".join(
        f"{words} {constants[key] / unit:.1f} {name}" for words, key, unit, name in shown if key in constants
    )


def _verdict(bad: list[Check]) -> str:
    if not bad:
        return "This machine can record."
    names = ", ".join(check.name for check in bad)
    return f"Mend {'this' if len(bad) == 1 else 'these'} first: {names}."


def _text(checks: list[Check], verdict: str, bad: list[Check]) -> str:
    after = "tracelens doctor" if bad else "tracelens profile train.py"
    return "\n".join([*(_line(check) for check in checks), "", verdict, "", f"next: {after}"])


def _line(check: Check) -> str:
    from tracelens.report.formatting import clean

    cure = f"\n     → {clean(check.cure)}" if check.cure else ""
    return f"{MARK[check.good]} {check.name}: {clean(check.found)}{cure}"
