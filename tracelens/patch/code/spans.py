"""Where each node of a syntax tree stands in the file's text, as offsets in characters.

In: a LibCST module. Out: its text, and the span of each node. The nodes' spans are those of LibCST's own
`PositionProvider` (a test holds one against the other): without the white space around a node. The provider splits
each token at its line ends to count lines, after the text was made once already; both together take four times as
long as this one pass, and patching parses each file before and after every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import libcst as cst
from libcst._nodes.internal import CodegenState  # what LibCST's own providers of positions derive from

Span = tuple[int, int]
"""First character, and the one after the last."""


def text_and_spans(module: cst.Module) -> tuple[str, Mapping[cst.CSTNode, Span]]:
    """The module's text and where its nodes stand in it; raises `RecursionError` for a tree that is too deep."""
    state = _Recorder(module)
    module._codegen(state)
    text = "".join(state.tokens)
    if module.has_trailing_newline:
        return text, state.spans
    return text, {node: (start, min(end, len(text))) for node, (start, end) in state.spans.items()}


class _Recorder(CodegenState):
    """Receives the tokens of a module in order, and is told where nodes begin and end."""

    __slots__ = ("_offset", "_starts", "spans")

    def __init__(self, module: cst.Module) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self._offset = 0
        self._starts: list[int] = []
        self.spans: dict[cst.CSTNode, Span] = {}

    def add_indent_tokens(self) -> None:
        self.tokens.extend(self.indent_tokens)
        self._offset += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self._offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:  # noqa: ARG002 - LibCST's signature
        self._starts.append(self._offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.spans.setdefault(node, (self._starts.pop(), self._offset))

    # A block like LibCST's generator, in a third of its time.
    def record_syntactic_position(  # type: ignore[override]
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _SyntacticSpan:
        return _SyntacticSpan(self, node, start_node, end_node)

    @property
    def offset(self) -> int:
        """How many characters the tokens so far have."""
        return self._offset


class _SyntacticSpan:
    """A `with` block around the part of a node that is no white space."""

    __slots__ = ("_end_node", "_node", "_recorder", "_start", "_start_node")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self._recorder, self._node, self._start_node, self._end_node = recorder, node, start_node, end_node
        self._start = 0

    def __enter__(self) -> None:
        self._start = self._recorder.offset

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        spans = self._recorder.spans
        start = self._start if self._start_node is None else spans[self._start_node][0]
        end = self._recorder.offset if self._end_node is None else spans[self._end_node][1]
        spans[self._node] = (start, end)
