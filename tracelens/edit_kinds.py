"""The registry of Edit kinds: what every stage has to know of one kind, in one place.

In: nothing. Out: `EditDefinition`, one per kind, and questions about them. Planning (`schemes/plan`), the replay, the
patcher, the rule files and the reports read it; none of them lists kinds itself. The code of a kind is its recipe, a
module of `patch/recipes/` that the definition names; its texts and examples are in `rules/recipes/<kind>/`.

A new kind is three things: its name in `EditKind` with a definition here, the recipe module, and the rules folder,
whose `offered_by` names the schemes that make it. `tests/rules/test_edit_kinds.py` says which of them is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from tracelens.messages import say

EditKind = Literal[
    "defer-read",
    "event-sync",
    "interval-sync",
    "async-copy",
    "prefetch",
    "thin-logs",
    "move-guard",
    "more-workers",
    "loader-workers",
    "persistent-workers",
    "rare-call",
    "loader-ahead",
    "loader-pinning",
    "gradients-to-none",
    "average-at-once",
    "read-at-once",
    "anomaly-off",
    "tf32",
    "cudnn-benchmark",
    "matmul-precision",
    "fused-optimizer",
    "compile-modules",
    "channels-last",
    "bf16-autocast",
]
Tier = Literal["safe", "checked", "unsafe", "manual"]
"""How far a hunk is proved to change nothing that the script computes or prints.

`safe`: proved. `checked`: not proved, and no obstacle is known; written only where the Run holds a `verify` of this
very patch with equal results. A hunk of a `checked` kind may be proved, and is `safe` then. `unsafe`: it changes
something, made with --unsafe. `manual`: shown, never applied.
"""
Parameter = Literal["interval", "depth", "workers", "choice"]
WaitGroup = Literal["synchronize", "event", "read", "steering-read", "copy"]
"""How planning sorts the recorded waits of a loop. A steering read decides what the host does next."""
LoopCondition = Literal[
    "copies-batches",
    "copies-block",
    "no-copy-stream",
    "interval-above-1",
    "more-workers-pay",
    "has-workers",
    "workers-end-with-epoch",
]
"""What must hold for a loop before a kind is offered; `schemes/plan` has the test of each."""
Need = Literal["per_batch_wait", "host_copy"]
"""What a scheme needs of a loop; a kind says which of them it meets."""
WithoutWorkers = Literal["made", "made-alone", "left-out"]
ReplayRule = Literal[
    "wait-every-n",
    "mark-by-event",
    "read-later",
    "read-every-n",
    "pinned-copy",
    "copy-ahead",
    "more-workers",
]
"""How the replay changes the recorded host calls; `replay/edits` has the code of each. Several kinds may share one."""


@dataclass(frozen=True, slots=True)
class NotReplayed:
    """The replay cannot predict this kind: what is missing, and how to find out what it buys."""

    missing: str
    hint: str
    changes_steps: bool = True
    """False where it changes nothing within a step, so that the estimate of other Edits beside it stands."""


@dataclass(frozen=True, slots=True)
class EditDefinition:
    """One kind of Edit."""

    id: EditKind
    tier: Tier
    """`unsafe`: its hunks are made with --unsafe only. A recipe may give a single hunk a stricter tier."""
    hunk: int
    """First number of its hunks' ids: 1 for TL101, 10 for TL10-01. A new kind takes the next free number.

    Two kinds with the same number are one change where they meet at one place, and have one recipe.
    """
    recipe: str
    """Module of `patch/recipes/` whose `propose` makes it."""
    label: str
    """What it does, as a switch of the report; `{n}` is its interval."""
    replay: ReplayRule | NotReplayed
    parameters: frozenset[Parameter] = frozenset()
    """Which fields of `Edit` it uses; a scheme's template gives `interval` and `depth`."""

    acts_on: tuple[WaitGroup, ...] = ()
    """The waits that it changes, and at whose lines the patcher looks for places.

    Empty: no recorded wait belongs to it. With `needs_wait` it is then never offered; without, its Edit names no line
    and the recipe gets one Target without a line.
    """
    needs_wait: bool = True
    """It is offered only where the loop has such a wait."""
    ends_waits: bool = True
    """False where the waits only say where to look: the Edit then names their lines and no Stall."""
    conditions: tuple[LoopCondition, ...] = ()
    """What must hold for the loop before it is offered, all of it; `schemes/plan` has the test of each."""
    meets: Need | None = None
    """What a scheme may need of a loop (`needs` in its rule file) that is there where this kind is offered."""
    without_workers: WithoutWorkers = "made"
    """Where the loader works in the training thread: made, made only as a scheme's single Edit, or left out."""
    judged_with: tuple[EditKind, ...] = ()
    """Kinds that a plan drops together with this one. They save no time without it, so they are judged as one."""

    needs_known_gain: bool = False
    """Made only where a replay tells its gain beside the others from zero, and else by name: it costs more lines."""
    follows_project: bool = True
    """False where nothing elsewhere in the project decides about it: the project is not analysed then."""
    names_its_places: bool = False
    """True where most waits of its groups are no place of this kind. Only its hunks then say which lines it changes."""
    by_hand_in_helper: str = ""
    """What to do by hand in a function without a loop; empty where it reads a value, which the function can return."""
    label_at_once: str = ""
    """The label for interval 1, where that is another change than waiting for n batches."""
    looks_for: tuple[str, ...] = ()
    """Its Edit names no line: its places are in the script, and in files that it imports with one of these words."""
    label_joined: str = ""
    """The label of this kind together with those that share its number."""


_COPY_IN_HELPER = say("copy with non_blocking=True there, from pinned memory")
_WAIT_IN_HELPER = say("wait every N batches, in the loop that calls it")

_MEASURE: Final = say("measure it with tracelens verify")
_PER_TENSOR: Final = say("which calls are left of a loop over tensors is not told")
_NO_ANOMALIES: Final = say("Train without anomaly detection")
_IN_ALL: Final = say("what anomaly detection costs is in every part of the step")
_KERNELS: Final = say("how long the kernels of another arithmetic take is in no recording")
_BACK, _OPTIM = "backward(", "optim"


def _of_host_work(kind: EditKind, hunk: int, recipe: str, label: str, unpredicted: str) -> EditDefinition:
    """A kind that spares the host work at a line and is about no recorded wait; never proved for every script."""
    replay = NotReplayed(unpredicted, _MEASURE)
    return EditDefinition(kind, "checked", hunk, recipe, label, replay, needs_wait=False, ends_waits=False)


def _of_rounding(kind: EditKind, hunk: int, recipe: str, label: str, *looks_for: str) -> EditDefinition:
    """A kind that has the same computed with another rounding; made only where somebody names its lever."""
    definition = EditDefinition(kind, "unsafe", hunk, recipe, label, NotReplayed(_KERNELS, _MEASURE))
    return replace(definition, needs_wait=False, ends_waits=False, follows_project=False, looks_for=looks_for)


DEFINITIONS: Final[tuple[EditDefinition, ...]] = (
    EditDefinition(
        id="defer-read",
        tier="safe",
        hunk=1,
        recipe="defer_read",
        label=say("Read results every {n} batches", n="{n}"),
        label_at_once=say("Read results as soon as they have arrived, without waiting"),
        replay="read-later",
        parameters=frozenset({"interval"}),
        acts_on=("read",),
        meets="per_batch_wait",
        judged_with=("event-sync", "interval-sync"),
    ),
    EditDefinition(
        id="event-sync",
        tier="safe",
        hunk=2,
        recipe="synchronize",
        label=say("Record an event instead of waiting"),
        label_joined=say("Record an event, wait for it every {n} batches", n="{n}"),
        replay="mark-by-event",
        acts_on=("synchronize",),
        meets="per_batch_wait",
        judged_with=("interval-sync", "defer-read"),
        by_hand_in_helper=_WAIT_IN_HELPER,
    ),
    EditDefinition(
        id="interval-sync",
        tier="safe",
        hunk=2,
        recipe="synchronize",
        label=say("Wait every {n} batches only", n="{n}"),
        label_joined=say("Record an event, wait for it every {n} batches", n="{n}"),
        replay="wait-every-n",
        parameters=frozenset({"interval"}),
        acts_on=("synchronize", "event"),
        meets="per_batch_wait",
        judged_with=("event-sync", "defer-read"),
        by_hand_in_helper=_WAIT_IN_HELPER,
    ),
    EditDefinition(
        id="async-copy",
        tier="safe",
        hunk=3,
        recipe="async_copy",
        label=say("Copy from pinned memory without waiting"),
        replay="pinned-copy",
        acts_on=("copy",),
        needs_wait=False,
        conditions=("copies-batches", "copies-block"),
        meets="host_copy",
        without_workers="made-alone",
        judged_with=("prefetch",),
        by_hand_in_helper=_COPY_IN_HELPER,
    ),
    EditDefinition(
        id="prefetch",
        tier="safe",
        hunk=4,
        recipe="prefetch",
        label=say("Copy the next batch on a stream of its own"),
        replay="copy-ahead",
        parameters=frozenset({"depth"}),
        acts_on=("copy",),
        needs_wait=False,
        conditions=("copies-batches", "no-copy-stream"),
        meets="host_copy",
        without_workers="left-out",
        needs_known_gain=True,
        by_hand_in_helper=_COPY_IN_HELPER,
    ),
    EditDefinition(
        id="thin-logs",
        tier="unsafe",
        hunk=5,
        recipe="thin_logs",
        label=say("Write lines every {n} batches only (unsafe)", n="{n}"),
        replay="read-every-n",
        parameters=frozenset({"interval"}),
        acts_on=("read",),
        conditions=("interval-above-1",),
        names_its_places=True,
    ),
    EditDefinition(
        id="move-guard",
        tier="unsafe",
        hunk=6,
        recipe="move_guard",
        label=say("Look for not-a-number every {n} batches (unsafe)", n="{n}"),
        replay="read-later",
        parameters=frozenset({"interval"}),
        acts_on=("read", "steering-read"),
        conditions=("interval-above-1",),
        meets="per_batch_wait",
        names_its_places=True,
    ),
    EditDefinition(
        id="more-workers",
        tier="unsafe",
        hunk=7,
        recipe="more_workers",
        label=say("Give the loader more workers (unsafe)"),
        replay="more-workers",
        parameters=frozenset({"workers"}),
        acts_on=("copy",),
        needs_wait=False,
        ends_waits=False,
        conditions=("more-workers-pay",),
        meets="host_copy",
    ),
    EditDefinition(
        id="loader-workers",
        tier="checked",
        hunk=7,
        recipe="more_workers",
        label=say("Give the loader more workers, checked by a trial"),
        label_joined=say("Give the loader more workers"),
        replay="more-workers",
        parameters=frozenset({"workers"}),
        needs_wait=False,
        ends_waits=False,
    ),
    EditDefinition(
        id="persistent-workers",
        tier="unsafe",
        hunk=8,
        recipe="persistent_workers",
        label=say("Keep the loader's workers alive (unsafe)"),
        replay=NotReplayed(
            say("what workers that stay alive save lies between two epochs, where no step was recorded"),
            say("time two epochs with it and without it"),
            changes_steps=False,
        ),
        acts_on=("copy",),
        needs_wait=False,
        ends_waits=False,
        conditions=("has-workers", "workers-end-with-epoch"),
    ),
    EditDefinition(
        id="rare-call",
        tier="checked",
        hunk=9,
        recipe="rare_call",
        label=say("Make calls that the training does not need every {n} batches only", n="{n}"),
        replay=NotReplayed(
            say("what a line of Python costs is said by its owner"),
            say("look at the owners of the step, or measure it with tracelens verify"),
        ),
        parameters=frozenset({"interval"}),
        needs_wait=False,
        ends_waits=False,
    ),
    EditDefinition(
        id="loader-ahead",
        tier="checked",
        hunk=10,
        recipe="loader_arguments",
        label=say("Let each worker of the loader prepare more batches"),
        replay=NotReplayed(
            say("how unevenly the workers deliver is not in a recording of a few steps"),
            _MEASURE,
            changes_steps=False,
        ),
        parameters=frozenset({"depth"}),
        needs_wait=False,
        ends_waits=False,
    ),
    _of_host_work(
        "loader-pinning",
        11,
        "loader_arguments",
        say("Let the loader pin its batches"),
        say("what pinning costs the loader is not known without copies that use it"),
    ),
    _of_host_work(
        "gradients-to-none",
        12,
        "zero_grad",
        say("Free gradients instead of filling them with zeros"),
        say("which kernels of the step fill gradients is not told"),
    ),
    _of_host_work("average-at-once", 13, "average_at_once", say("Average all weights in a few calls"), _PER_TENSOR),
    _of_host_work("read-at-once", 14, "read_at_once", say("Read the values of all tensors at once"), _PER_TENSOR),
    replace(_of_host_work("anomaly-off", 15, "anomaly_off", _NO_ANOMALIES, _IN_ALL), follows_project=False),
    _of_rounding("tf32", 16, "torch_settings", say("Round products to TF32 (unsafe)"), _BACK, "allow_tf32"),
    _of_rounding("cudnn-benchmark", 17, "torch_settings", say("Let cuDNN search (unsafe)"), _BACK, ".benchmark"),
    _of_rounding("matmul-precision", 18, "torch_settings", say("Round float32 products (unsafe)"), _BACK, "precision"),
    _of_rounding("fused-optimizer", 19, "fused_optimizer", say("Update in one kernel (unsafe)"), _OPTIM),
    _of_rounding("compile-modules", 20, "compile_modules", say("Compile the model (unsafe)"), _BACK),
    _of_rounding("channels-last", 21, "channels_last", say("Images in channels-last order (unsafe)"), _BACK),
    _of_rounding("bf16-autocast", 22, "autocast_blocks", say("Forward and loss in bfloat16 (unsafe)"), _BACK),
)
"""In the order of hunk ids, which is the order of tables and of the choices that a message names."""

EDIT_DEFINITIONS: Final[Mapping[EditKind, EditDefinition]] = {one.id: one for one in DEFINITIONS}
SAFE_EDITS: Final[tuple[EditKind, ...]] = tuple(one.id for one in DEFINITIONS if one.tier == "safe")
UNSAFE_EDITS: Final[tuple[EditKind, ...]] = tuple(one.id for one in DEFINITIONS if one.tier == "unsafe")
"""Edits that change what a run computes or prints, when it stops or what it draws: made with --unsafe only."""


def definition(kind: EditKind) -> EditDefinition:
    """The definition of a kind; raises `LookupError` where there is none."""
    if kind not in EDIT_DEFINITIONS:
        raise LookupError(f"Edit kind {kind!r} has no definition: add one to DEFINITIONS in tracelens/edit_kinds.py")
    return EDIT_DEFINITIONS[kind]


def replay_rule(kind: EditKind) -> ReplayRule | NotReplayed:
    """How the replay treats a kind. A kind without a definition is not replayed."""
    known = EDIT_DEFINITIONS.get(kind)
    if known is not None:
        return known.replay
    missing = say("how an Edit of kind {kind} changes a step is not declared", kind=kind)
    return NotReplayed(missing, say("measure it with tracelens verify"))


def one_change(kind: EditKind) -> frozenset[EditKind]:
    """The kinds that make one hunk with this one where they meet at one place, itself among them."""
    number = definition(kind).hunk
    return frozenset(one.id for one in EDIT_DEFINITIONS.values() if one.hunk == number)


def hunk_id(kind: EditKind, count: int) -> str:
    """Id of a patch's hunk number `count` (from 1) of this kind.

    TL101 for the kinds 1 to 9. From 10 on a hyphen keeps the two numbers apart: TL10-01, since TL1100 is the hundredth
    of kind 1.
    """
    number = definition(kind).hunk
    return f"TL{number}{count:02d}" if number < 10 else f"TL{number}-{count:02d}"
