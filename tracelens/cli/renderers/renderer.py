"""What a format is: a name, and for each kind of answer the function that makes its text.

In: the answer of a command, and how it is to be shown. Out: text. A kind of answer that a format has no function for is
not offered by the commands that give it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation
    from tracelens.cli.planning import PlanOptions
    from tracelens.model import Diagnosis, IllustratedDiagnosis, SecondOpinion
    from tracelens.report.compare import Comparison
    from tracelens.report.gate import Gate
    from tracelens.schemes.catalog import AnyRule, Rules

Answer = TypeVar("Answer")
AnswerKind = Literal["analysis", "plan", "page", "comparison", "gate", "rules", "outcome"]
COMMANDS: Mapping[str, AnswerKind] = {
    "analyze": "analysis",
    "recommend": "plan",
    "report": "page",
    "apply": "outcome",
    "revert": "outcome",
    "verify": "outcome",
    "try": "outcome",
    "fix": "outcome",
    "patch": "outcome",
    "compare": "comparison",
    "check": "gate",
    "annotate": "outcome",
    "rules": "rules",
    "doctor": "outcome",
}
"""What each command answers with."""


@dataclass(frozen=True, slots=True)
class AnalysisAnswer:
    """What `analyze` found. `typed`: paths and options of the user, for the next command."""

    diagnosis: Diagnosis
    typed: Sequence[str]
    second_opinion: SecondOpinion | None = None


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """What `recommend` and `report` have to say."""

    diagnosis: IllustratedDiagnosis
    typed: Sequence[str]
    options: PlanOptions
    opinion: SecondOpinion | None = None
    """HTA's, where it was asked for."""


@dataclass(frozen=True, slots=True)
class ComparisonAnswer:
    """What `compare` found. `new`: the Diagnosis of the newer side. `failed`: the gate was asked for and fails."""

    comparison: Comparison
    new: Diagnosis
    next_command: str
    failed: bool


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """What `check` judged."""

    gate: Gate
    diagnosis: Diagnosis
    next_command: str


@dataclass(frozen=True, slots=True)
class RulesAnswer:
    """What `rules` explains: all rules, or with `name` those of one id."""

    rules: Rules
    name: str | None
    named: Sequence[AnyRule]


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What a command did, for people and for programs."""

    text: Callable[[], str]
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """One output format. A function per kind of answer; None where the format has no form for it."""

    name: str
    about: str
    """What it is for, in one line of the documentation."""
    suffix: str | None = None
    """Of the file that `report` writes where -o names none; None where it prints the answer."""
    analysis: Callable[[AnalysisAnswer, Presentation], str] | None = None
    plan: Callable[[PlanAnswer, Presentation], str] | None = None
    page: Callable[[PlanAnswer, Presentation], str] | None = None
    comparison: Callable[[ComparisonAnswer, Presentation], str] | None = None
    gate: Callable[[GateAnswer, Presentation], str] | None = None
    rules: Callable[[RulesAnswer, Presentation], str] | None = None
    outcome: Callable[[CommandOutcome, Presentation], str] | None = None

    def serves(self, command: str) -> bool:
        """Whether a command can answer in this format."""
        return getattr(self, COMMANDS[command]) is not None


def render(function: Callable[[Answer, Presentation], str] | None, answer: Answer, presentation: Presentation) -> str:
    """The answer as text. The choices of --format hold only formats that have the function."""
    if function is None:
        raise AssertionError(f"--format {presentation.form} is no format of this command")
    return function(answer, presentation)
