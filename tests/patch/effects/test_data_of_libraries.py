"""What a library hands out: parts of the model, the optimizer, the settings; modules and builtins by other ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

PARTS = {
    "a group of the optimizer, by a loop": Case(
        before="for group in opt.param_groups:\n    pass", body="STEP\ngroup['lr'] = loss.item()  # later"
    ),
    "a group of the optimizer, in a dict": Case(
        before="shown = {'group': opt.param_groups[0]}", body="STEP\nshown['group']['lr'] = loss.item()  # later"
    ),
    "a group of the optimizer, held by an object": Case(
        code="class Rate:\n    def __init__(self, group):\n        self.group = group\n\n"
        "    def set(self, value):\n        self.group['lr'] = value\n",
        before="rate = Rate(opt.param_groups[0])",
        body="STEP\nrate.set(loss.item())  # later",
    ),
    "a tensor of the state dict": Case(
        before="weights = model.state_dict()", body="STEP\nweights['layer.bias'][0] = loss.item()  # later"
    ),
    "the data of a named parameter": Case(
        before="weights = dict(model.named_parameters())",
        body="STEP\nweights['layer.bias'].data[0] = loss.item()  # later",
    ),
}
SETTINGS = {
    "settings that another object has": Case(
        code="import argparse\n\n\nclass Rate:\n    def __init__(self, settings):\n        self.settings = settings\n\n"
        "    def get(self):\n        return self.settings.last\n",
        before="settings = argparse.Namespace(last=0.0)\nrate = Rate(settings)",
        body="STEP\nsettings.last = loss.item()  # later\nopt.param_groups[0]['lr'] = rate.get()",
    ),
}
OWN_NUMBERS = {
    "a tensor": Case(before="numbers = torch.zeros(100)", body="STEP\nnumbers[i] = loss.item()  # later"),
    "an array": Case(
        code="import numpy as np", before="numbers = np.zeros(100)", body="STEP\nnumbers[i] = loss.item()  # later"
    ),
}
REFUSED = {
    "a builtin that the loop replaces": Case(
        code="import builtins", body="STEP\nprint(i, loss.item())  # later\nif i == 5:\n    builtins.print = repr"
    ),
    "a module that is imported by its text, in the loop": Case(
        code="import importlib\n\n\nclass State:\n    last = 0.0\n",
        body="STEP\nState.last = loss.item()  # later\nopt.param_groups[0]['lr'] = importlib.import_module('x').y",
    ),
}
STATE = "class State:\n    last = 0.0\n\n"
MANY = "class Box:\n    pass\n\n\nbox = Box()\n" + "".join(f"box.value = [{n}]\n" for n in range(70))
NOT_KNOWN = {
    "unknown code may give it back": Case(
        code=STATE,
        before="import nobody\nstate = State()\nsame = nobody.wrap(state)",
        body="STEP\nstate.last = loss.item()  # later\nopt.param_groups[0]['lr'] = same.last",
    ),
    "unknown code may have given it": Case(
        code=STATE,
        before="import nobody\nstate = State()\nsame = nobody.wrap(state)",
        body="STEP\nsame.last = loss.item()  # later\nopt.param_groups[0]['lr'] = state.last",
    ),
    "an element of a list that unknown code may give back": Case(
        before="import nobody\nvalues = [0.0]\nsame = nobody.wrap(values)",
        body="STEP\nvalues[0] = loss.item()  # later\nopt.param_groups[0]['lr'] = same[0]",
    ),
    "one of very many": Case(
        code=MANY,
        before="values = [0.0]\nbox.value = values",
        body="STEP\nvalues[0] = loss.item()  # later\nopt.param_groups[0]['lr'] = box.value[0]",
    ),
}
WRITTEN = {
    "by the setter of all objects": "object.__setattr__(self, 'state', state)",
    "by the setter of the base class": "super().__setattr__('state', state)",
}


@pytest.mark.parametrize("what", NOT_KNOWN)
def test_what_unknown_code_has_may_be_what_it_gives(what: str) -> None:
    answer = asked(one_file(NOT_KNOWN[what], SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"object"}), answer


def test_a_duration_is_known_among_very_many_objects() -> None:
    case = Case(
        code=MANY,
        before="start = time.time()",
        body="STEP\nbox.value = time.time() - start\nstart = time.time()\nprint(loss.item(), box.value)  # later",
    )
    assert {reason.kind for reason in asked(one_file(case, SURROUNDINGS["function"])).reasons} >= {"time"}


@pytest.mark.parametrize("how", WRITTEN)
def test_an_attribute_is_known_however_it_is_written(how: str) -> None:
    code = (
        f"{STATE}\nclass Frozen:\n    def __init__(self, state):\n        {WRITTEN[how]}\n\n"
        "    def note(self, value):\n        self.state.last = value\n"
    )
    case = Case(
        code=code,
        before="state = State()\nfrozen = Frozen(state)",
        body="STEP\nfrozen.note(loss.item())  # later\nopt.param_groups[0]['lr'] = state.last",
    )
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "refused"


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("part", PARTS)
def test_a_change_to_weights_or_groups_is_refused(part: str, around: str, files: Callable[..., dict[str, str]]) -> None:
    answer = asked(files(PARTS[part], SURROUNDINGS[around]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_of_a_library_are_told_apart_from_those_of_others(
    settings: str, files: Callable[..., dict[str, str]]
) -> None:
    answer = asked(files(SETTINGS[settings], SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("refused", {"object"}), answer
    assert [reason.text for reason in answer.reasons if reason.known] == ["`rate.get()` looks at `last`"]


@pytest.mark.parametrize("numbers", OWN_NUMBERS)
def test_numbers_that_the_script_makes_itself_are_told_apart(numbers: str) -> None:
    assert asked(one_file(OWN_NUMBERS[numbers], SURROUNDINGS["function"])).tier == "safe"


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("how", REFUSED)
def test_names_that_are_reached_by_other_ways_are_seen(how: str, files: Callable[..., dict[str, str]]) -> None:
    assert asked(files(REFUSED[how], SURROUNDINGS["function"])).tier == "refused"


@pytest.mark.parametrize(
    "line", ["import __main__ as state", "import importlib\nstate = importlib.import_module('main')"]
)
def test_the_started_module_is_seen_by_its_other_names(line: str) -> None:
    case = Case(
        before=f"last = 0.0\n{line}",
        body="STEP\nlast = loss.item()  # later\nopt.param_groups[0]['lr'] = state.last",
    )
    assert asked(one_file(case, SURROUNDINGS["module"])).tier == "refused"
