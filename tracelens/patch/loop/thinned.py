"""Lines of output that are written every N batches only, and how they are known again.

In: a node of a parsed file. Out: whether it stands below a condition that a patch put there. Apart because recipes
that do not thin anything have to know it too: what such a statement reads is read rarely by now.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, is_output, is_property, key, root_key, targets, variables, walk
from tracelens.patch.code.outside import SEES_NAMES
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, own_nodes

MARK = "# thinned by tracelens"
"""Behind the condition: it tells readers where it comes from, and a second run that nothing is left to do."""

BY_HAND = say("write the line every N batches: if step % N == 0")
_USED_UP = words("iter zip map filter reversed enumerate open defaultdict collections.defaultdict itertools.count")
"""What is another thing after somebody has looked: an iterator, a dict that makes what it lacks."""
_READS_BACK = ("tell", "getvalue", "read", "readlines", "seek", "truncate")
_NO_LOOKS = words(
    "__init__ __new__ __enter__ __exit__ __call__ __iter__ __next__ __getitem__ __setitem__ __setattr__ __delitem__"
    " __setstate__ __post_init__ __del__"
)
"""Special methods that store for other reasons than that somebody looked."""
_LISTENS = words("emit filter")


def is_thinned(source: SourceFile, node: cst.CSTNode) -> bool:
    above = (one for one in source.ancestors(node) if isinstance(one, cst.If))
    return any(MARK in source.line_text(source.line(one)) or _is_of_bar(one.test) for one in above)


def _is_of_bar(test: cst.BaseExpression) -> bool:
    """`step % 10 == 0 or step + 1 == bar.total`: the text of a bar is set every N batches, and in the last one."""
    either = isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
    parts = list(walk(test)) if either else []
    counts = any(isinstance(part, cst.Modulo) for part in parts)
    return counts and any(isinstance(part, cst.Attribute) and part.attr.value == "total" for part in parts)


def check_not_thinned(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise `Blocked` where a patch has made a read rare already."""
    if is_thinned(source, node):
        raise Blocked(None, say("it is thinned out already"), say("nothing to do"))


def check_unwatched(facts: LoopFacts, line: cst.SimpleStatementLine) -> None:
    """Raise `Blocked` where something else than the screen or a file tells whether a line was written."""
    small, names = line.body[0], facts.names
    for above in facts.source.ancestors(line):
        if above is facts.loop:
            break
        if isinstance(above, (cst.Try, cst.TryStar)):
            raise Blocked(line, say("an error in the line is caught, and the loop goes on in another way"), BY_HAND)
    if isinstance(small, cst.Assign):
        seers = (n for n in walk(facts.source.module) if isinstance(n, cst.Call) and dotted(n.func) in SEES_NAMES)
        seer = next(seers, None)
        if seer is not None:
            raise Blocked(seer, say("`{call}()` can see every name of the function", call=dotted(seer.func)), BY_HAND)
        return
    for variable in variables(small):
        made = set(names.makers.get(key(variable), ())) & _USED_UP
        if made and not (isinstance(small, cst.Expr) and "open" in made):
            raise Blocked(
                line,
                say("`{variable}` is another thing after somebody has looked at it", variable=key(variable)),
                BY_HAND,
            )
    call = small.value if isinstance(small, cst.Expr) else None
    if isinstance(call, cst.Call):
        _check_stream(facts, call)
    for name, definitions in names.functions.items():
        for function in definitions:
            looks = (name.startswith("__") and name not in _NO_LOOKS) or is_property(function)
            if looks and _counts(function):
                raise Blocked(
                    line, say("`{name}` of the file changes its object when it is looked at", name=name), BY_HAND
                )


def _check_stream(facts: LoopFacts, call: cst.Call) -> None:
    """Raises `Blocked` where leaving out this output changes other output.

    That is so where the loop prints parts of one line in several calls, and where the stream is read back.
    """
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    printed = (n for n in walk(facts.loop.body) if isinstance(n, cst.Call) and dotted(n.func) == "print")
    if dotted(call.func) == "print" and any(_leaves_line_open(one) for one in printed):
        raise Blocked(call, say("it writes a part of a line, to which others write the rest"), BY_HAND)
    stream = named["file"] if "file" in named else call.func.value if isinstance(call.func, cst.Attribute) else None
    root = root_key(stream) if stream is not None else None
    if root and any(f"{root}.{method}(" in facts.source.text for method in _READS_BACK):
        raise Blocked(call, say("what was written to `{root}` is looked at again", root=root), BY_HAND)
    if not is_output(call, facts.names):
        return
    logs = isinstance(call.func, cst.Attribute) and set(facts.names.functions) & _LISTENS
    if logs:
        raise Blocked(call, say("`{logs}` of the file may count the lines of a log", logs=min(logs)), BY_HAND)


def _leaves_line_open(call: cst.Call) -> bool:
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == "end":
            text = argument.value.evaluated_value if isinstance(argument.value, cst.SimpleString) else None
            return not isinstance(text, str) or not ("\n" in text or "\r" in text)
    return False


def _counts(function: cst.FunctionDef) -> bool:
    """Whether a method stores into its own object."""
    for node in own_nodes(function):
        stores = isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign))
        if stores and any((root_key(target) or "").startswith("self.") for target in targets(node)):
            return True
    return False
