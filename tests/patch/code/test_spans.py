"""Where nodes stand in the text: in one pass of ours, held against LibCST's own positions."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from tests.support.parsed_scripts import parsed
from tracelens.patch.code.source import parse
from tracelens.patch.code.spans import text_and_spans

PACKAGE = Path(__file__).resolve().parents[3] / "tracelens"
FILES = sorted(PACKAGE.glob("patch/*/*.py"))[::12]
ODD = {
    "line ends of Windows": "if a:\r\n    b = [\r\n        1,\r\n    ]\r\n# end\r\n",
    "parameters": "def f(a, /, b=1, *c, d, **e) -> int: return a\n",
    "letters beyond ASCII": 'ä = "é\u2028ñ"; print(ä, "𝛼" + ä)  # ü\nb = ä\n',
    "parentheses": "x = ((a + b)) * (\n    c\n)\ny = (yield_ := 3)\n",
    "decorators and comments": "@a  # one\n\n@b(1)\n# two\nclass C(D): # three\n    # four\n    pass\n\n    # five\n",
    "tabs and a line that goes on": "if a and \\\n\tb:\n\tc = 1; d = 2 ;\n",
    "empty": "",
    "a string in pieces": 'f"{a!r:>{width}} {b}" "c" \\\n    r"d"\n',
    "match": "match a:\n    case {'b': [c, *_], **d} if c:\n        pass\n    case E(f=1) | None:\n        ...\n",
    "try and with": "try:\n    with a as b, (c): pass\nexcept* (D, E) as e:\n    raise\nelse: pass\nfinally:\n    b\n",
}


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """As LibCST counts: lines from 1, columns in characters."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset) - 1


def check(text: str) -> None:
    module = cst.parse_module(text)
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    expected = {
        node: (where.start.line, where.start.column, where.end.line, where.end.column)
        for node, where in wrapper.resolve(PositionProvider).items()
    }
    code, spans = text_and_spans(module)
    assert code == module.code == text
    assert {
        node: (*line_and_column(code, start), *line_and_column(code, end)) for node, (start, end) in spans.items()
    } == expected


@pytest.mark.parametrize("name", ODD)
def test_spans_of_odd_texts_are_libcst_s(name: str) -> None:
    check(ODD[name])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_spans_of_real_files_are_libcst_s(file: Path) -> None:
    check(file.read_text(encoding="utf-8"))


def test_no_span_ends_after_a_text_without_a_last_line_end() -> None:
    code, spans = text_and_spans(cst.parse_module("if a:\n    b"))
    assert (code, max(end for _, end in spans.values())) == ("if a:\n    b", len(code))


def test_a_node_has_its_lines_its_code_and_its_parentheses(tmp_path: Path) -> None:
    source = parsed(tmp_path, "a = 1\nb = (\n    a\n)\n")
    second = cst.ensure_type(source.module.body[1], cst.SimpleStatementLine)
    value = cst.ensure_type(second.body[0], cst.Assign).value
    assert (source.line(second), source.last_line(second), source.line(value)) == (2, 4, 3)
    assert (source.code(value), source.code(second)) == ("(\n    a\n)", "b = (\n    a\n)")


def test_lines_count_from_a_byte_order_mark(tmp_path: Path) -> None:
    source = parse(tmp_path / "a.py", "a.py", b"\xef\xbb\xbfa = 1\nb = 2\n")
    assert [(source.line(node), source.code(node)) for node in source.module.body] == [(1, "a = 1"), (2, "b = 2")]
