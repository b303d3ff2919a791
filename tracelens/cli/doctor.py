"""`tracelens doctor`: is this machine able to record what we need?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens import messages
from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import UsageError
from tracelens.messages import joined, say, say_count

if TYPE_CHECKING:
    from tracelens.cli.machine_facts import Check, MachineFacts

MARK = {True: say("ok  "), False: say("BAD "), None: say("note")}


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
    from tracelens.cli import machine_facts, torch_probe

    return machine_facts.MachineFacts(torch=torch_probe.ask(), gpus=describe_gpus(), folder=Path())


def calibrated() -> tuple[Check, ...]:
    """What `--calibrate` measured, and where it is kept; a note where it could not, for the replay has defaults."""
    from tracelens.capture import calibration
    from tracelens.cli.machine_facts import Check

    try:
        with output.progress(say("measuring this machine, some 20 s")):
            measured = calibration.measure()
            path = calibration.write_cache(measured)
    except UsageError as error:
        return (Check("calibration", None, say("not available: {message}", message=error.message), error.hint),)
    missing = joined(", ", measured["skipped"])
    constants = calibration.values(measured)
    told = say(
        "{count} constants of {gpu} under torch {torch}: {highlights}",
        count=len(constants),
        gpu=measured["gpu"],
        torch=measured["torch"],
        highlights=_highlights(measured),
    )
    kept = say("kept in {path}; recordings made from now on carry them", path=path)
    return (
        Check(
            "calibration",
            True,
            told,
            say("{kept}; could not be measured: {missing}", kept=kept, missing=missing) if missing else kept,
        ),
    )


def _highlights(constants: Mapping[str, Any]) -> str:
    known = (
        (say("pinned copies"), "pinned_bytes_per_us", 1e3, "GB/s"),
        (say("pageable copies"), "pageable_bytes_per_us", 1e3, "GB/s"),
        (say("pinning on the main thread"), "pin_main_bytes_per_us", 1e3, "GB/s"),
        (say("a synchronize with nothing to wait for"), "sync_issue_ns", 1e3, "µs"),
        (say("the profiler per event"), "row_overhead_ns", 1e3, "µs"),
    )
    return joined(
        ", ",
        (
            say("{what} {value:.1f} {unit}", what=words, value=constants[key] / scale, unit=unit)
            for words, key, scale, unit in known
            if key in constants
        ),
    )


def _verdict(bad: list[Check]) -> str:
    if not bad:
        return say("This machine can record.")
    names = joined(", ", (check.name for check in bad))
    return say_count("Mend this first: {names}.", "Mend these first: {names}.", len(bad), names=names)


def _text(checks: list[Check], verdict: str, bad: list[Check]) -> str:
    after = "tracelens doctor" if bad else "tracelens profile train.py"
    said = [*(_line(check) for check in checks), "", verdict, "", say("next: {after}", after=after)]
    return joined("\n", said)


def _line(check: Check) -> str:
    from tracelens.report.formatting import clean

    found, cure = (clean(messages.shown(text)) for text in (check.found, check.cure))
    line = say("{mark} {name}: {found}", mark=MARK[check.good], name=check.name, found=found)
    return joined("\n     → ", (line, cure) if cure else (line,))
