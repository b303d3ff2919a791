"""The methods of modules that a library may call are those of torch itself."""

from __future__ import annotations

from types import FunctionType

import torch

from tracelens.patch.effects.implicit import OF_MODULES


def test_every_method_of_a_module_is_known_that_a_class_may_override() -> None:
    defined = {name for name, value in vars(torch.nn.Module).items() if isinstance(value, FunctionType)}
    special = {name for name in defined if name.startswith("__") and name.endswith("__")}
    assert defined - special - {"forward"} <= OF_MODULES


def test_no_name_is_there_that_torch_does_not_have() -> None:
    assert {name for name in OF_MODULES if not hasattr(torch.nn.Module, name)} == set()
