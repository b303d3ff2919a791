"""What waits is never called safe where Python or a library calls what reads it, though no text names the call."""

from __future__ import annotations

import pytest

from tests.support.implicit_reads import STATE, ways
from tests.support.moves import SURROUNDINGS, Case, asked, asked_once, two_files

WAYS = {name: (code, reader) for name, code, reader in ways()}
LOOKING = "rows.append({} or seen[-1])"


@pytest.mark.parametrize("name", WAYS)
def test_is_seen(name: str) -> None:
    code, reader = WAYS[name]
    body = "STEP\nstate.total += loss.item()  # later\n" + LOOKING.format(reader)
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows)")
    assert asked_once(two_files(case, SURROUNDINGS["function"])).tier != "safe"


HARMLESS = {
    "plain elements": ("def half(n):\n    return n / 2\n", "statistics.mean(map(half, [i, 2]))"),
    "a generator": ("def twice(n):\n    yield n\n    yield n\n", "' '.join(map(str, twice(i)))"),
    "an object that shows itself": (
        "class Peek:\n    def __init__(self):\n        self.n = 3\n    def __repr__(self):\n"
        "        return f'{self.n}'\npeek = Peek()\n",
        "str([peek])",
    ),
    "a property of its own": (
        "class Peek:\n    def __init__(self):\n        self.n = 3\n    now = property(lambda self: self.n)\n"
        "peek = Peek()\n",
        "'{p.now}'.format(p=peek)",
    ),
    "an enum": ("class Split(enum.Enum):\n    TRAIN = 't'\n", "Split.TRAIN.value"),
    "length": ("", "len(DataLoader(Data()))"),
    "mode": ("", "model.train()"),
    "options": (
        "@dataclasses.dataclass\nclass Options:\n    rates: list = dataclasses.field(default_factory=list)\n"
        "options = Options()\n",
        "f'{options} {options.rates}'",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_reads_nothing_of_it_stays_proved(name: str) -> None:
    code, reader = HARMLESS[name]
    body = f"STEP\nstate.total += loss.item()  # later\nrows.append({reader})"
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows, state.total)")
    found = asked(two_files(case, SURROUNDINGS["function"]))
    assert found.tier == "safe", found


PARTS = {
    "a slice": "heads[:1][0]",
    "a slice of a slice": "heads[:][:1][0]",
    "a slice of what is sorted": "sorted(heads, key=len)[:1][0]",
    "what a function of two chooses": "functools.reduce(lambda first, second: first, heads)",
    "what a slice was given": "other[0]",
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_list_is_the_part(name: str) -> None:
    before = f"heads = [[], []]\nother = []\nother[:] = heads\nshown = {PARTS[name]}"
    body = "STEP\nheads[0].append(loss.item())  # later\nprint(shown)"
    case = Case(body, STATE, before)
    assert asked(two_files(case, SURROUNDINGS["function"])).tier != "safe"


def test_a_loader_asks_a_data_set_for_samples_and_no_more() -> None:
    code = (
        "class Rows(Dataset):\n    def __len__(self):\n        return 4\n    def __getitem__(self, k):\n"
        "        return torch.ones(4), 1\n    def show(self, *given):\n        print(state.total)\n"
    )
    body = "STEP\nstate.total += loss.item()  # later\nDataLoader(Rows())"
    assert asked(two_files(Case(body, f"{STATE}\n{code}"), SURROUNDINGS["function"])).tier == "safe"
    loud = code.replace("return 4", "return print(state.total) or 4")
    assert asked(two_files(Case(body, f"{STATE}\n{loud}"), SURROUNDINGS["function"])).tier != "safe"


SHOWN = {
    "a function in a list": "'%s %.2f' % (peek, i)",
    "a function": "'%s' % peek",
    "an iterator": "'%s' % (map(peek, [i]),)",
    "a function that is put into a text": "'{} {:.2f} {n!r}'.format(peek, i, n=[peek])",
    "an iterator that is put into a text": "'{}'.format(map(peek, [i]))",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_text_calls_no_function_that_it_shows(name: str) -> None:
    code = "def peek(*n):\n    return state.total\n"
    body = f"STEP\nstate.total += loss.item()  # later\nrows.append({SHOWN[name]})"
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows, state.total)")
    found = asked(two_files(case, SURROUNDINGS["function"]))
    assert found.tier == "safe", found


ASKED = {
    "an object that shows itself, in a list": ("__str__", "'%s %.2f' % (peek, i)"),
    "an object that is a number": ("__float__", "'%.2f' % peek"),
    "an object that is a number, in a list": ("__index__", "'%s %x' % (i, peek)"),
    "an object that has values by key": ("__getitem__", "'%(loss)s' % peek"),
    "an object that is put into a text": ("__format__", "'{:.2f}'.format(peek)"),
    "an object whose element is put into a text": ("__getitem__", "'{0[loss]}'.format(peek)"),
    "an object whose element is a width": ("__getitem__", "'{1:{0[loss]}}'.format(peek, i)"),
    "an object that a text in an argument asks": ("__getitem__", "'{}'.format(*map('{0[loss]}'.format, [peek]))"),
    "an object that any text asks": ("__getitem__", "str(i).format(peek)"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_text_asks_the_objects_that_it_shows(name: str) -> None:
    method, shown = ASKED[name]
    code = f"class Peek:\n    def {method}(self, *key):\n        return state.total\npeek = Peek()\n"
    body = f"STEP\nstate.total += loss.item()  # later\nrows.append({shown})"
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows, state.total)")
    assert asked(two_files(case, SURROUNDINGS["function"])).tier == "refused"


def test_a_text_asks_the_factory_of_a_dict_for_what_it_lacks() -> None:
    code = "import collections\ndef peek():\n    return state.total\npeeks = collections.defaultdict(peek)\n"
    body = "STEP\nstate.total += loss.item()  # later\nrows.append('%(loss)s' % peeks)"
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows, state.total)")
    assert asked(two_files(case, SURROUNDINGS["function"])).tier != "safe"
