"""What a screen shows as it is, in every language: names of the trace, lines of the script, ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from tracelens.edit_kinds import EDIT_DEFINITIONS, Tier
from tracelens.findings import DETECTORS
from tracelens.model import IllustratedDiagnosis
from tracelens.schemes.rules import load

PYTORCH = (
    "torch.compile",
    "torch.compile reduce-overhead",
    "GradScaler",
    "steps/s",
    "False",
    "True",
    "reduce-overhead",
)


def data_of(diagnosis: IllustratedDiagnosis) -> set[str]:
    """Every text that a screen shows as it is: of the trace, the script, the Run and the rules' ids."""
    trace, run, rules = diagnosis.timeline.trace, diagnosis.run, load()
    found = {trace.device or "", *(name for name in _names(diagnosis))}
    found |= {line.strip() for source in diagnosis.sources.values() for line in source.splitlines()}
    found |= {*diagnosis.sources, "tracelens_runtime.py", *PYTORCH, *get_args(Tier)}
    if run is not None:
        found |= {
            run.path.name,
            *map(str, run.command),
            " ".join(map(str, run.command)),
            *map(str, run.environment.values()),
        }
    ids = {
        *(one.id for one in (*rules.schemes, *rules.levers, *rules.measures, *rules.findings.values())),
        *(lever.id for lever in diagnosis.levers),
        *(item.id for item in diagnosis.inventory),
        *(one.id for one in DETECTORS),
        *EDIT_DEFINITIONS,
        *(call for one in rules.levers for call in (*one.callees, *one.value.usual)),
    }
    return found | ids | {name.replace("_", " ").replace("-", " ") for name in ids}


def _names(diagnosis: IllustratedDiagnosis) -> Iterator[str]:
    tables = diagnosis.timeline.tables
    for table, column in ((tables.ops, "name"), (tables.calls, "name"), (tables.loader, "name"), (tables.waits, "api")):
        if column in table:
            yield from table[column].used()
    yield from (name for name in diagnosis.timeline.trace.names if "foreach" in name)
    for owner in diagnosis.owners.owners:
        yield owner.callee or ""
    for stall in diagnosis.stalls:
        yield from (
            stall.api,
            stall.call or "",
            str(stall.location or ""),
            (stall.location and stall.location.function) or "",
        )
