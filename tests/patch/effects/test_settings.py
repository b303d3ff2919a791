"""Settings are one object with attributes: what the project puts into them is seen, what a text gives is a number."""

from __future__ import annotations

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files
from tracelens.patch.effects.question import Answer

CODE = """
import argparse
import numpy as np


class Show:
    def __init__(self, seen):
        self.seen = seen

    def __call__(self, *given):
        print(self.seen)
        return given


class Parser(argparse.ArgumentParser):
    pass
"""
PARSED = "args = parser.parse_args()"
SEEN = {
    "a default, by its own name": ("parser.add_argument('--show', dest='s', default=seen)", PARSED, "print(args.s)"),
    "a positional's default": ("parser.add_argument('show', nargs='?', default=seen)", PARSED, "print(args.show)"),
    "a default of a group": ("parser.add_argument_group().add_argument('-s', default=seen)", PARSED, "print(args.s)"),
    "a default of all": ("parser.set_defaults(show=seen)", PARSED, "print(args.show)"),
    "defaults by ** ": ("parser.set_defaults(**{'show': seen})", PARSED, "print(args.show)"),
    "a function of a command": (
        "parser.add_subparsers().add_parser('a').set_defaults(run=Show(seen))",
        PARSED,
        "args.run(1)",
    ),
    "an argument that is spread": ("parser.add_argument(*['--show'], **{'default': seen})", PARSED, "print(args.show)"),
    "a parent": (
        "old = argparse.ArgumentParser(add_help=False)\nold.add_argument('--show', default=seen)\n"
        "parser = argparse.ArgumentParser(parents=[old])",
        PARSED,
        "print(args.show)",
    ),
    "a parser of the project": (
        "parser = Parser()\nparser.add_argument('--show', default=seen)",
        PARSED,
        "print(args.show)",
    ),
    "known ones": ("parser.add_argument('s', default=seen)", "args = parser.parse_known_args()[0]", "print(args.s)"),
    "a type": ("parser.add_argument('--show', type=lambda text: seen)", PARSED, "print(args.show)"),
    "a namespace that is given": (
        "parser.add_argument('--show', default=seen)",
        "import types\nargs = types.SimpleNamespace()\nparser.parse_args([], args)",
        "print(args.show)",
    ),
    "a namespace": ("", "args = argparse.Namespace(show=seen)", "print(args.show)"),
    "a simple namespace": ("", "import types\nargs = types.SimpleNamespace(show=seen)", "print(args.show)"),
    "a namespace of a dict": ("", "args = argparse.Namespace(**{'show': seen})", "print(args.show)"),
    "a copy": ("parser.set_defaults(s=seen)", f"{PARSED}\nargs = argparse.Namespace(**vars(args))", "print(args.s)"),
    "a dict": ("parser.set_defaults(show=seen)", f"{PARSED}\nargs = vars(args)", "print(args['show'])"),
    "all names": ("parser.set_defaults(show=seen)", PARSED, "print(*(getattr(args, name) for name in dir(args)))"),
    "names and values": ("parser.set_defaults(show=seen)", PARSED, "print(args._get_kwargs())"),
    "the text": ("parser.set_defaults(show=seen)", PARSED, "print(args)"),
    "a text in another": ("parser.set_defaults(show=seen)", PARSED, "print(f'{args}')"),
}  # fmt: skip


def _answer(before: str, later: str, stays: str, whole: str = "function", *, apart: bool = False) -> Answer:
    before = f"seen = []\nparser = argparse.ArgumentParser()\n{before}"
    case = Case(f"STEP\n{later}  # later\n{stays}", code=CODE, before=before)
    return asked((two_files if apart else one_file)(case, SURROUNDINGS[whole]))


@pytest.mark.parametrize("apart", [False, True], ids=["one file", "two files"])
@pytest.mark.parametrize("name", SEEN)
def test_what_the_project_puts_into_settings_is_seen(name: str, apart: bool) -> None:
    said, parsed, shows = SEEN[name]
    found = _answer(f"{said}\n{parsed}", "seen.append(loss.item())", shows, apart=apart)
    assert found.tier == "refused", found


CHANGED = {
    "an attribute": ("args.total += loss.item()", "print(args.total)"),
    "an attribute that the text of all has": ("args.total += loss.item()", "print(args)"),
    "an attribute by another name": ("setattr(args, 'total', loss.item())", "print(args.total)"),
    "an attribute through the dict": ("vars(args)['total'] = loss.item()", "print(args.total)"),
    "the dict through an attribute": ("args.total = loss.item()", "print(named['total'])"),
    "all of the dict": ("args.total = loss.item()", "print(named)"),
    "a pass over the dict": ("args.total = loss.item()", "print(*named.values())"),
    "an update of the dict": ("named.update(total=loss.item())", "print(args.total)"),
    "a list of the command line": ("args.many.append(loss.item())", "print(args.many)"),
    "a list that is collected": ("args.more.append(loss.item())", "print(len(args.more))"),
    "what the project says nothing of": ("args.other.append(loss.item())", "print(args.other)"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_moved_statement_changes_of_settings_is_seen(name: str) -> None:
    later, stays = CHANGED[name]
    before = (
        "parser.add_argument('--total', type=float)\nparser.add_argument('--many', nargs='*')\n"
        f"parser.add_argument('--more', action='append')\n{PARSED}\nnamed = vars(args)"
    )
    assert _answer(before, later, stays).tier == "refused"


def test_settings_beside_a_loop_are_no_obstacle() -> None:
    before = (
        "parser.add_argument('--width', type=int, default=4)\nparser.add_argument('--rates', nargs='*', type=float)\n"
        f"parser.add_argument('-q', '--quiet', action='store_true')\n{PARSED}\nrows = np.array([[1.0]])"
    )
    stays = "rows = np.concatenate([rows, rows.reshape(args.width, -1)])\nx.view(args.width, -1)\nlen(args.rates)"
    found = _answer(before, "seen.append(loss.item())", stays)
    assert found.tier == "safe", found


ARRAYS = {
    "an object within": ("rows = np.array([Show(seen)])", "rows[0](1)"),
    "a list within": ("rows = np.array([seen, [1, 2]], dtype=object)", "print(rows)"),
    "a dict": ("rows = np.array({'a': seen})", "print(rows)"),
    "a dict of its own": ("held = {}\nrows = np.array(held)\nheld['a'] = seen", "print(rows)"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_within_an_array_is_seen(name: str) -> None:
    before, shows = ARRAYS[name]
    assert _answer(before, "seen.append(loss.item())", shows).tier != "safe"
