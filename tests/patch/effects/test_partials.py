"""`functools.partial(f, …)` that a library is handed: what `f` does with these arguments, the library does.

The same function is handed over as a lambda and as a method, so that no way of writing it is less careful.
"""

from __future__ import annotations

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

CODE = """
import functools
from functools import partial


def stack(rows):
    return torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in rows])


def collate_printing(name, rows):
    print(name, len(rows))
    return stack(rows)


def collate_looking(kept, rows):
    x, y = stack(rows)
    return x * (1 + len(kept)), y


def collate_adding(rows, kept):
    kept.append(len(rows))
    return stack(rows)


def hook_printing(name, module, args, out):
    print(name, out.shape)


def hook_looking(kept, module, args, out):
    return out * (1 + len(kept))


def hook_adding(module, args, out, kept):
    kept.append(1)


def plain_collate(scale, rows):
    x, y = stack(rows)
    return x * scale, y


class Plan:
    def __init__(self, kept):
        self.kept = kept

    def collate(self, rows):
        return collate_looking(self.kept, rows)

    def say(self, name, rows):
        return collate_printing(name, rows)

    def hook(self, module, args, out):
        return hook_looking(self.kept, module, args, out)
"""
COLLATES = {
    "partial, prints": "partial(collate_printing, 'a')",
    "lambda, prints": "lambda rows: collate_printing('a', rows)",
    "method, prints": "partial(Plan(hist).say, 'a')",
    "partial by module, prints": "functools.partial(collate_printing, 'a')",
    "partial of a partial, prints": "partial(partial(collate_printing), 'a')",
    "partial by keyword, prints": "partial(collate_printing, name='a')",
    "partial, looks": "partial(collate_looking, hist)",
    "lambda, looks": "lambda rows: collate_looking(hist, rows)",
    "method, looks": "Plan(hist).collate",
    "partial of a method, looks": "partial(Plan(hist).collate)",
    "partial of a method without its object, looks": "partial(Plan.collate, Plan(hist))",
    "partial of a lambda, looks": "partial(lambda kept, rows: collate_looking(kept, rows), hist)",
    "partial by keyword, adds": "partial(collate_adding, kept=hist)",
    "lambda, adds": "lambda rows: collate_adding(rows, hist)",
    "partial of what a library has": "partial(print, 'a')",
    "partial of what nobody knows": "partial(strange.collate, hist)",
    "partial with more arguments": "partial(collate_looking, *[hist])",
    "partial with more keywords": "partial(collate_adding, **{'kept': hist})",
}
HOOKS = {
    "partial, prints": "partial(hook_printing, 'a')",
    "lambda, prints": "lambda m, a, o: hook_printing('a', m, a, o)",
    "partial, looks": "partial(hook_looking, hist)",
    "lambda, looks": "lambda m, a, o: hook_looking(hist, m, a, o)",
    "method, looks": "Plan(hist).hook",
    "partial of a method, looks": "partial(Plan(hist).hook)",
    "partial by keyword, adds": "partial(hook_adding, kept=hist)",
    "partial of what a library has": "partial(print, 'a')",
    "what a library has": "print",
    "a list's own method": "lambda *a: hist.append(1)",
    "partial of a list's own method": "partial(hist.append)",
}
BODIES = {
    "prints": "STEP\nprint(loss.item())  # later",
    "looks": "STEP\nhist.append(loss.item())  # later",
    "adds": "STEP\nhist.append(loss.item())  # later",
    "": "STEP\nprint(loss.item(), len(hist))  # later\nhist.append(loss.item())  # later",
}
"""What meets it: a line, a list that grows, both."""


def _body(name: str) -> str:
    return BODIES[name.rpartition(", ")[2] if ", " in name else ""]


FILES = {"the same file": one_file, "another file": two_files}


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", COLLATES)
def test_what_puts_batches_together(name: str, files: str) -> None:
    over = f"DataLoader(Data(), collate_fn={COLLATES[name]})"
    case = Case(_body(name), f"import strange\n{CODE}" if "strange" in over else CODE, "hist = []", over=over)
    for around in ("function", "module"):
        assert asked(FILES[files](case, SURROUNDINGS[around])).tier != "safe"


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", HOOKS)
def test_what_is_called_at_each_pass(name: str, files: str) -> None:
    for register in ("model.layer.register_forward_hook", "model.register_forward_hook"):
        case = Case(_body(name), CODE, f"hist = []\n{register}({HOOKS[name]})")
        assert asked(FILES[files](case, SURROUNDINGS["function"])).tier != "safe"


ELSEWHERE = {
    "a transform": ("data = Mapped(partial(see, hist))", "DataLoader(data)"),
    "a map over the loader": ("", "map(partial(see, hist), DataLoader(Data()))"),
    "a generator": ("", "(see(hist, one) for one in DataLoader(Data()))"),
    "a generator over a map": ("", "(one for one in map(partial(see, hist), DataLoader(Data())))"),
    "an iterator with an end": ("it = iter(DataLoader(Data()))", "iter(partial(drawn, it, hist), None)"),
    "a sampler's key": ("", "sorted(DataLoader(Data()), key=partial(see, hist))"),
    "a rate": (
        "sched = torch.optim.lr_scheduler.LambdaLR(opt, partial(rate, hist))",
        "stepping(DataLoader(Data()), sched)",
    ),
    "a default": ("made = collections.defaultdict(partial(see, hist, 0))", "looked_up(DataLoader(Data()), made)"),
    "a lambda of torchvision": (
        "data = Mapped(torchvision.transforms.Lambda(partial(see, hist)))",
        "DataLoader(data)",
    ),
    "an object that keeps it": ("keeper = Keeper(partial(see, hist))", "keeper.through(DataLoader(Data()))"),
    "a dict of them": ("table = {'see': partial(see, hist)}", "(table['see'](one) for one in DataLoader(Data()))"),
}
SEEING = """
import collections
import torchvision


def see(kept, one):
    print(len(kept))
    return one


def drawn(it, kept):
    print(len(kept))
    return next(it)


def rate(kept, step):
    return 1 + len(kept)


def stepping(loader, sched):
    for one in loader:
        sched.step()
        yield one


def looked_up(loader, table):
    for n, one in enumerate(loader):
        table[n]
        yield one


class Keeper:
    def __init__(self, act):
        self.act = act

    def through(self, loader):
        for one in loader:
            yield self.act(one)


class Mapped(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __getitem__(self, index):
        return self.transform(torch.ones(4)), 1

    def __len__(self):
        return 100
"""


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_places(name: str, files: str) -> None:
    before, over = ELSEWHERE[name]
    case = Case(BODIES[""], CODE + SEEING, f"hist = []\n{before}", over=over)
    assert asked(FILES[files](case, SURROUNDINGS["function"])).tier != "safe"


HARMLESS = {
    "a collate function": ("", "DataLoader(Data(), collate_fn=partial(plain_collate, 0.5))"),
    "a collate function, by keyword": ("", "DataLoader(Data(), collate_fn=partial(plain_collate, scale=0.5))"),
    "with a list of its own": ("other = []", "DataLoader(Data(), collate_fn=partial(collate_looking, other))"),
    "beside a list that is nobody's": (
        "other = []",
        "DataLoader(Data(), collate_fn=partial(collate_adding, kept=other))",
    ),
    "a function of torch": ("", "DataLoader(Data(), collate_fn=partial(torch.utils.data.default_collate))"),
    "a layer": ("block = partial(nn.BatchNorm1d, eps=1e-6)\nmodel.norm = block(4)", "DataLoader(Data())"),
    "a loss": ("criterion = partial(F.cross_entropy, label_smoothing=0.1)", "DataLoader(Data())"),
    "a hook that reads its module": (
        "model.register_forward_hook(partial(hook_adding, kept=[]))",
        "DataLoader(Data())",
    ),
    "a rate": (
        "sched = torch.optim.lr_scheduler.LambdaLR(opt, partial(max, 0.1))",
        "DataLoader(Data())",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_function_that_sees_nothing_stays_proved(name: str) -> None:
    before, over = HARMLESS[name]
    found = asked(one_file(Case(BODIES[""], CODE, f"hist = []\n{before}", over=over), SURROUNDINGS["function"]))
    assert found.tier == "safe", found
