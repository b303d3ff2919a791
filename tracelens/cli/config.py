"""Defaults from `[tool.tracelens]` of the nearest pyproject.toml, as click's `default_map`.

In: a folder and the commands. Out: per command, the values of its options, each checked by the option itself. Whatever
the command line or a TRACELENS_… variable says comes first; this file only replaces what the program would assume.

    [tool.tracelens]                      every command that has the option
    interval = 20
    weights = { performance = 40, risk = 15 }
    [tool.tracelens.check]                one command
    max-syncs-per-step = 1
    allow = ["train.py:88"]

Paths are relative to the file, because a project is worked on from more than one folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tracelens.cli.options import did_you_mean
from tracelens.errors import UsageError
from tracelens.messages import joined, say

FILE = "pyproject.toml"
TABLE = "tracelens"
NOT_CONFIGURED = frozenset({"help", "version", "dry-run", "stop-after-window", "unsafe", "checked"})
"""Options that are given on the command line only: a file that makes every `apply` a dry run would mislead."""
AMBIGUOUS = frozenset({"lever", "steps"})
"""Options of one name that mean different things: the scheme taken, or all that `patch` makes; steps recorded, or of a
trial."""
SEE = say("docs/configuration.md has every key")


def nearest(start: Path) -> Path | None:
    """The first pyproject.toml at or above `start` that has the table; others belong to other projects."""
    for folder in (start, *start.parents):
        file = folder / FILE
        if _is_file(file) and TABLE in (_parsed(file).get("tool") or {}):
            return file
    return None


def defaults(file: Path, commands: Mapping[str, click.Command]) -> dict[str, dict[str, Any]]:
    """Per command, the values for its options. Raises `UsageError` for the first key or value that makes no sense."""
    table = _parsed(file)["tool"][TABLE]
    if not isinstance(table, dict):
        raise UsageError(say("{file}: [tool.{table}] is not a table", file=file, table=TABLE), hint=SEE)
    known = {name: dict(_options(command)) for name, command in commands.items()}
    out: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for key, value in table.items():
        if key in commands and isinstance(value, dict):
            for inner, wanted in value.items():
                option = _known(f"[tool.{TABLE}.{key}]", inner, known[key], (), file)
                out[key][_name(option)] = _checked(f"[tool.{TABLE}.{key}] {inner}", option, wanted, file)
            continue
        for name, (option, checked) in _shared(key, value, known, tuple(commands), file).items():
            out[name].setdefault(_name(option), checked)
    return out


def _shared(
    key: str, value: Any, known: Mapping[str, Mapping[str, click.Option]], tables: tuple[str, ...], file: Path
) -> dict[str, tuple[click.Option, Any]]:
    """A key for all commands, for those whose option takes the value: not every command has every format."""
    having = {name: options[key] for name, options in known.items() if key in options}
    if not having:
        every = {name: option for options in known.values() for name, option in options.items()}
        _known(f"[tool.{TABLE}]", key, every, tables, file)
    if key in AMBIGUOUS:
        places = " or ".join(f"[tool.{TABLE}.{name}]" for name in having)
        raise UsageError(
            say("{file}: {key} means different things to {having}", file=file, key=key, having=joined(", ", having)),
            hint=say("put it under {places}", places=places),
        )
    out, refused = {}, None
    for name, option in having.items():
        try:
            out[name] = (option, _checked(f"[tool.{TABLE}] {key}", option, value, file))
        except UsageError as error:
            refused = error
    if refused is not None and not out:
        raise refused
    return out


def _parsed(file: Path) -> dict[str, Any]:
    """A file that does not speak of us may be as broken as it likes."""
    text = ""
    try:
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if f"tool.{TABLE}" not in text:
            return {}
        raise UsageError(
            say("{file} is not TOML: {error}", file=file, error=error),
            hint=say("mend it, or take [tool.tracelens] out of it"),
        ) from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder above that may not even be looked at holds nothing for us
        return False


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Per name as on the command line, without dashes."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for word in parameter.opts:
                name = word.lstrip("-")
                if word.startswith("--") and name not in NOT_CONFIGURED:
                    yield name, parameter


def _known(
    table: str, key: str, options: Mapping[str, click.Option], tables: tuple[str, ...], file: Path
) -> click.Option:
    """The option of this key; with the nearest one in the error where there is none."""
    option = options.get(key)
    if option is None:
        guess = did_you_mean(key.replace("_", "-"), (*options, *tables))
        raise UsageError(
            say("{file}: {table} has no key {key!r}.{guess}", file=file, table=table, key=key, guess=guess), hint=SEE
        )
    return option


def _name(option: click.Option) -> str:
    if option.name is None:  # click gives every option a name
        raise AssertionError
    return option.name


def _checked(where: str, option: click.Option, value: Any, file: Path) -> Any:
    """The value as the command line would write it, once the option has accepted it."""
    words = _words(where, option, value, file)
    context = click.Context(click.Command(TABLE), resilient_parsing=False)
    try:
        option.process_value(context, words)
    except click.UsageError as error:
        raise UsageError(f"{file}: {where}: {error.message}", hint=SEE) from error
    return words


def _words(where: str, option: click.Option, value: Any, file: Path) -> Any:
    if isinstance(value, dict) and option.name == "weights":
        return ",".join(f"{name}={share}" for name, share in value.items())
    if option.multiple:
        if not isinstance(value, list):
            raise UsageError(say("{file}: {where} is not a list", file=file, where=where), hint=SEE)
        return [_one(where, option, entry, file) for entry in value]
    return _one(where, option, value, file)


def _one(where: str, option: click.Option, value: Any, file: Path) -> Any:
    if isinstance(value, bool) != option.is_flag or isinstance(value, dict | list):
        wanted = say("true or false") if option.is_flag else say("one value")
        raise UsageError(
            say(
                "{file}: {where} should be {wanted}, but is {value!r}",
                file=file,
                where=where,
                wanted=wanted,
                value=value,
            ),
            hint=SEE,
        )
    if isinstance(option.type, click.Path) and isinstance(value, str) and value:
        return str(file.parent / value)
    return value if option.is_flag else str(value)
