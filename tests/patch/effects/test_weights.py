"""What torch keeps of a training (parameters, buffers, gradients, groups of optimizers) under whatever name it is held.

It changes in each batch: who holds a part of it and shows it beside the loss would show that of a later batch.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

HELD = {
    "the named parameters, in a dict": "dict(model.named_parameters())",
    "the parameters, in a list": "{'all': p for p in model.parameters()}",
    "the state dict": "model.state_dict()",
    "the buffers": "dict(model.named_buffers())",
    "the state dict of a part": "{name: value.data for name, value in model.layer.state_dict().items()}",
    "a view of a weight": "{'flat': model.layer.weight.view(-1)}",
    "a parameter": "{'bias': model.layer.bias}",
    "a gradient": "{'grad': next(model.parameters()).grad}",
    "what the optimizer has": "{'first': opt.param_groups[0]['params'][0]}",
    "what functions make flat": "{'flat': torch.flatten(model.layer.weight)}",
}
WATCH = """
class Watch:
    def __init__(self, weights):
        self.weights = weights

    def show(self, value):
        print(value, sum(float(weight.sum()) for weight in self.weights.values()))
"""
CHANGES = {
    "a step": "opt.step()",
    "the scaler's step": "torch.cuda.amp.GradScaler().step(opt)",
    "an operation in place": "with torch.no_grad():\n    for p in model.parameters():\n        p.mul_(0.9)",
    "an assignment in place": "with torch.no_grad():\n    for p in model.parameters():\n        p -= 0.1 * p.grad",
    "new data": "for p in model.parameters():\n    p.data = p.data * 0.9",
    "a copy in place": "for p, q in zip(model.parameters(), other.parameters()):\n    p.data.copy_(q.data)",
    "a loaded state": "model.load_state_dict(other.state_dict())",
    "a function of torch": "torch.nn.init.zeros_(model.layer.weight)",
    "clipped gradients": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "the gradients of a loss": "loss.backward()",
    "an average of weights": "average.update_parameters(model)",
}
GROUPS = {
    "a group that a schedule changes": "schedule.step()",
    "a group that the loop changes": "for group in opt.param_groups:\n    group['lr'] = 0.1 / (i + 1)",
}


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("held", HELD)
def test_who_holds_weights_sees_each_step(held: str, around: str, files: Callable[..., dict[str, str]]) -> None:
    case = Case(code=WATCH, before=f"watch = Watch({HELD[held]})", body="STEP\nwatch.show(loss.item())  # later")
    answer = asked(files(case, SURROUNDINGS[around]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_them_is_seen(change: str, files: Callable[..., dict[str, str]]) -> None:
    case = Case(
        code=WATCH,
        before="watch = Watch(dict(model.named_parameters()))\nother = Net()\n"
        "average = torch.optim.swa_utils.AveragedModel(model)",
        body=f"loss = torch.zeros(())\n{CHANGES[change]}\nwatch.show(loss.item())  # later",
    )
    answer = asked(files(case, SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize("change", GROUPS)
def test_a_group_of_the_optimizer_is_one_of_them(change: str) -> None:
    case = Case(
        code="class Rate:\n    def __init__(self, group):\n        self.group = group\n\n"
        "    def show(self, value):\n        print(value, self.group['lr'])\n",
        before="rate = Rate(opt.param_groups[0])\nschedule = torch.optim.lr_scheduler.StepLR(opt, 1)",
        body=f"loss = torch.zeros(())\n{GROUPS[change]}\nrate.show(loss.item())  # later",
    )
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "refused"


def test_tensors_of_the_scripts_own_are_changed_by_their_optimizer() -> None:
    case = Case(
        code=WATCH,
        before="weight = torch.zeros(3, requires_grad=True)\nown = torch.optim.SGD([weight], 0.1)\n"
        "watch = Watch({'own': weight})",
        body="loss = torch.zeros(())\nown.step()\nwatch.show(loss.item())  # later",
    )
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "refused"


UNCHANGED = {
    "their number": "print(loss.item(), count)  # later",
    "a rate that is kept": "print(loss.item(), opt.param_groups[0]['lr'])  # later",
    "a norm that is kept": "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    "print(loss.item(), norm.item())  # later",
    "a meter": "meter.update(loss.item())  # later",
}


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("what", UNCHANGED)
def test_what_is_computed_of_them_beforehand_stays(what: str, files: Callable[..., dict[str, str]]) -> None:
    case = Case(
        code="class Meter:\n    total = 0.0\n    def update(self, value):\n        self.total += value\n",
        before="count = sum(p.numel() for p in model.parameters())\nmeter = Meter()\n"
        "best = {name: value.clone() for name, value in model.state_dict().items()}",
        body=f"STEP\n{UNCHANGED[what]}",
    )
    answer = asked(files(case, SURROUNDINGS["function"]))
    assert answer.tier == "safe", answer


REPLACED = {
    "by an assignment": "torch.cuda.synchronize = lambda: None",
    "by a function of torch": "torch.cuda.synchronize = torch.cuda.current_device",
    "by setattr": "setattr(torch.cuda, 'synchronize', lambda: None)",
}


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("how", REPLACED)
def test_a_synchronize_that_the_script_replaces_does_not_wait(how: str, files: Callable[..., dict[str, str]]) -> None:
    case = Case(
        code=REPLACED[how],
        before="start = time.time()",
        body="STEP\ntorch.cuda.synchronize()\nspan = time.time() - start\nprint(loss.item(), span)  # later",
    )
    answer = asked(files(case, SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"time"}), answer


SEEN = {
    "in a text": "print(f'{value} {self.values}')",
    "in another text": "print('%s %s' % (value, self.values))",
    "by a comparison": "print(value, self.values == [0.0])",
    "by its truth": "print(value, bool(self.values))",
}


@pytest.mark.parametrize("how", SEEN)
def test_what_an_object_shows_of_a_list_is_read(how: str) -> None:
    case = Case(
        code=f"class Show:\n    def __init__(self, values):\n        self.values = values\n\n"
        f"    def show(self, value):\n        {SEEN[how]}\n",
        before="values = []\nshow = Show(values)",
        body="STEP\nvalues.append(i)\nshow.show(loss.item())  # later",
    )
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "refused"


COMPUTED = ["(w * 2).sum()", "-w", "w @ w", "f'{w}'", "'%s' % w", "w > 0", "abs(w)", "w[0]", "w if w else 0", "[*w]"]


@pytest.mark.parametrize("expression", COMPUTED)
def test_a_weight_is_read_by_whatever_computes_with_it(expression: str) -> None:
    case = Case(
        code="class Watch:\n    def __init__(self, weights):\n        self.weights = weights\n\n"
        "    def show(self, value):\n        w = self.weights['layer.bias']\n"
        f"        print(value, {expression})\n",
        before="watch = Watch(dict(model.named_parameters()))",
        body="STEP\nwatch.show(loss.item())  # later",
    )
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "refused"
