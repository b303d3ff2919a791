"""Options and arguments that several commands share, and what turns them into pipeline values.

In: click's parsed values. Out: `Inputs` and `Options` of the pipeline. A default is written once, here.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tracelens.cli import output, renderers
from tracelens.errors import UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.cli.renderers.renderer import Renderer
    from tracelens.model import Diagnosis
    from tracelens.pipeline import Inputs
    from tracelens.report.terminal import TerminalStyle

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

MOST_INTERVAL = 1_000
"""Batches: a loss that is older than that is of no use, and the replay runs through all of them."""


class NonNegativeNumber(click.FloatRange):
    """A number from 0 up. `nan` compares as false with every bound, so the range alone lets it through."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__(min=0, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(say("{value!r} is not a number", value=value), param, ctx)
        return number


class ChoiceWithSuggestion(click.Choice[str]):
    """One of a few words; what is nearly one of them is named."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(tuple(choices))

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx) + did_you_mean(str(value), self.choices)


class _NonEmptyPath(click.Path):
    """A path. An empty one is refused: it is usually an unset shell variable, and would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(say("it is empty: is a variable not set?"), param, ctx)
        return super().convert(value, param, ctx)


class RunOrTracePath(_NonEmptyPath):
    """A run or a trace. Not checked here: an unreadable input is exit code 4, click would exit with 2."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The runs of the current folder, newest first, where nothing was typed; else files."""
        from tracelens import run as runs

        folder = Path(runs.RUNS_FOLDER)
        folders = sorted((path for path in folder.glob("*") if runs.is_run(path)), reverse=True)
        mine = [CompletionItem(path.as_posix()) for path in folders if path.as_posix().startswith(incomplete)]
        return mine or super().shell_complete(ctx, param, incomplete)


INPUT = RunOrTracePath()


class OutputPath(_NonEmptyPath):
    """A file or folder to write."""

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(path_type=Path, file_okay=not folder, dir_okay=folder)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` where something known is close, else nothing."""
    near = difflib.get_close_matches(word, tuple(known), n=1)
    return say(" Did you mean {near!r}?", near=near[0]) if near else ""


@dataclass(frozen=True, slots=True)
class Presentation:
    """How an answer is shown."""

    form: str = "text"
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise UsageError(say("--quiet and --verbose exclude each other"), hint=say("leave one of them out"))

    def style(self) -> TerminalStyle:
        """The same for the terminal's drawing."""
        return output.terminal_style(self.color, everything=self.verbose)

    @property
    def for_people(self) -> bool:
        """Whether words beside the answer are wanted: text without -q."""
        return self.form == "text" and not self.quiet

    @property
    def renderer(self) -> Renderer:
        """The format that was chosen."""
        return renderers.by_name(self.form)


MAX_BYTES = "tracelens.max_bytes"


def _remember(context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
    context.meta[MAX_BYTES] = value


def inputs(command: Command) -> Command:
    """Runs or traces, and how much of a trace is read at most; `opened` uses both."""
    most = click.option(
        "--max-bytes",
        type=click.IntRange(min=1),
        expose_value=False,
        callback=_remember,
        help="Read no more of a trace than so many bytes of unpacked text.",
    )
    return click.argument("paths", metavar="[RUN|TRACE]...", nargs=-1, type=INPUT)(most(command))


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
import_runtime = click.option(
    "--import-runtime",
    is_flag=True,
    help="Import helpers from TraceLens; else they are put beside the script, or into its package.",
)
SCHEMES = ("event-interval", "interval-sync", "event-sync", "more-streams", "full-pipeline", "pinned-copy")
"""Ids of ours, for completion only: a folder of one's own rules may have others."""
scheme = click.option(
    "--scheme",
    "--lever",
    "scheme",
    metavar="ID",
    shell_complete=lambda *given: [name for name in SCHEMES if name.startswith(given[-1])],
    help="This lever instead of the recommended one (see `tracelens rules`).",
)
only = click.option("--only", multiple=True, metavar="HUNK", help="Only these changes; may be given several times.")
skip = click.option("--skip", multiple=True, metavar="HUNK", help="All but these changes; may be given several times.")
rules_folder = click.option(
    "--rules", type=click.Path(path_type=Path, file_okay=False), help="A folder of rules to use instead of ours."
)
redact = click.option(
    "--redact", is_flag=True, help="No source, patch, command or names of yours: files become file1.py, and so on."
)
source = click.option(
    "--source",
    type=ChoiceWithSuggestion(("all", "project", "none")),
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
            raise click.BadParameter(say("{name} is given twice", name=name), context, parameter)
        try:
            out[name] = float(number)
        except ValueError:
            raise click.BadParameter(say("{pair!r} is not CRITERION=PERCENT", pair=pair), context, parameter) from None
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


def presented(command: str) -> Decorator[Any]:
    """How the answer is shown, the same for every command: --format with the formats that serve it, -q, -v, --color."""
    forms = renderers.formats(command)
    return bundled(
        "shown",
        Presentation,
        click.option(
            "--format",
            "form",
            type=ChoiceWithSuggestion(forms),
            default=forms[0],
            show_default=True,
            help=say("What to print.") if len(forms) > 1 else say("What is printed."),
        ),
        click.option("-q", "--quiet", is_flag=True, help="Only the verdict and errors."),
        click.option(
            "-v", "--verbose", is_flag=True, callback=_talkative, help="Every row, every code frame, and timings."
        ),
        click.option(
            "--color",
            type=ChoiceWithSuggestion(("auto", "always", "never")),
            default="auto",
            show_default=True,
            help="Colors: auto is on a terminal unless NO_COLOR is set.",
        ),
    )


def _talkative(context: click.Context, _: click.Parameter, value: bool) -> bool:
    context.meta[output.TALKATIVE] = value
    return value


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

    with output.progress(say("reading the recording")):
        context = click.get_current_context(silent=True)
        return pipeline.open_inputs(tuple(paths), context.meta.get(MAX_BYTES) if context else None)


def unread(out: Path, diagnosis: Diagnosis) -> Path:
    """`out`, if writing there does not destroy what was read."""
    from tracelens import run as runs

    run = diagnosis.run
    read = [Path(trace.path) for trace in diagnosis.traces]
    read += [run.path / runs.RUN_FILE, *([run.script] if run.script else [])] if run else []
    if out.resolve() in {path.resolve() for path in read}:
        raise UsageError(
            say("{out} is one of the files read: that would overwrite it", out=out),
            hint=say("give another file with -o"),
        )
    return out


def run_folder(run: Path | None) -> Path:
    """The Run to work on; the newest complete one below the current folder by default."""
    from tracelens import run as runs

    return run if run is not None else runs.newest(Path(runs.RUNS_FOLDER))
