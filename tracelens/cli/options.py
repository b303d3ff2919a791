"""Options and arguments that several commands share, and what turns them into pipeline values.

In: click's parsed values. Out: `Inputs` and `Options` of the pipeline. A default is written once, here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracelens.cli import output
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.model import Diagnosis
    from tracelens.pipeline import Inputs

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

MOST_INTERVAL = 1_000
"""Nobody learns anything from a loss that is a thousand batches old, and the replay has to run through them all."""


class Amount(click.FloatRange):
    """A number from 0 up. `nan` compares as false with every bound, so the range alone lets it through."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__(min=0, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


INPUT = click.Path(path_type=Path, readable=False)
"""Whether it can be read is said by whoever reads it, with exit code 4; click would call it wrong usage."""

text_or_json = click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="What to print."
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Only the verdict and errors.")
inputs = click.argument("paths", metavar="[RUN|TRACE]...", nargs=-1, type=INPUT)
one_run = click.argument("run", metavar="[RUN]", required=False, type=INPUT)
interval = click.option(
    "--interval",
    type=click.IntRange(1, MOST_INTERVAL),
    help="N of synchronize and read every N batches.  [default: what the loop does already, else 10]",
)
script = click.option(
    "--script",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The training script, where the run does not have it (a bare trace, or a run moved here).",
)
unsafe = click.option("--unsafe", is_flag=True, help="Also make the changes that need a look: each says why.")
scheme = click.option(
    "--scheme", metavar="ID", help="This scheme instead of the recommended one (see `tracelens rules`)."
)
only = click.option("--only", multiple=True, metavar="HUNK", help="Only these hunks; may be given several times.")
skip = click.option("--skip", multiple=True, metavar="HUNK", help="All but these hunks; may be given several times.")
rules_folder = click.option(
    "--rules", type=click.Path(path_type=Path, file_okay=False), help="A folder of rules to use instead of ours."
)
source = click.option(
    "--source",
    type=click.Choice(("all", "project", "none")),
    default="project",
    show_default=True,
    help="Which source lines may enter the report.",
)


def _weights(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, float] | None:
    if value is None:
        return None
    out: dict[str, float] = {}
    for pair in value.split(","):
        name, _, number = (part.strip() for part in pair.partition("="))
        if name in out:
            raise click.BadParameter(f"{name} is given twice", context, parameter)
        try:
            out[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{pair!r} is not CRITERION=PERCENT", context, parameter) from None
    return out


weights = click.option(
    "--weights",
    metavar="C=P,...",
    callback=_weights,
    help="Weights in percent, such as performance=50,risk=20; criteria not named keep their share.",
)


def bundled(name: str, kind: type[Any], *decorators: Decorator[Any]) -> Decorator[Any]:
    """Several options that the command receives as one value: the fields of `kind` that they fill."""

    def bundle(command: Any) -> Any:
        @functools.wraps(command)
        def wrapped(**given: Any) -> Any:
            mine = {field.name: given.pop(field.name) for field in dataclasses.fields(kind) if field.name in given}
            return command(**given, **{name: kind(**mine)})

        return together(*decorators)(wrapped)

    return bundle


def together(*decorators: Decorator[Any]) -> Decorator[Any]:
    """Several options as one decorator, shown in the order given."""

    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


def opened(paths: Sequence[Path]) -> Inputs:
    """The traces of the Runs or files given, or of the newest complete Run below the current folder."""
    from tracelens import pipeline

    with output.progress("reading the recording"):
        return pipeline.open_inputs(tuple(paths))


def unread(out: Path, diagnosis: Diagnosis) -> Path:
    """`out`, if writing there does not destroy what was read."""
    from tracelens import run as runs

    run = diagnosis.run
    read = [Path(trace.path) for trace in diagnosis.traces]
    read += [run.path / runs.RUN_FILE, *([run.script] if run.script else [])] if run else []
    if out.resolve() in {path.resolve() for path in read}:
        raise UsageError(f"{out} is one of the files read: that would overwrite it", hint="give another file with -o")
    return out


def run_folder(run: Path | None) -> Path:
    """The Run to work on; the newest complete one below the current folder by default."""
    from tracelens import run as runs

    return run if run is not None else runs.newest(Path(runs.RUNS_FOLDER))
