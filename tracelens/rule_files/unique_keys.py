"""YAML in which no key of a mapping comes twice. A module of its own, because most commands need no YAML.

In: text. Out: what it holds. Raises what PyYAML raises.
"""

from __future__ import annotations

from typing import Any

import yaml

from tracelens.messages import say
from tracelens.rule_files.fields import shown


class UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML without the rule that the last of two equal keys wins silently; read in C where PyYAML was built with it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = say("the key {key} is there twice", key=shown(key.value))
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping
