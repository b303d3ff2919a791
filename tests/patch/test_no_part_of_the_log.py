"""Lines that share a name with a log, or may share an object with it, and are no part of it: they do not wait."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.parsed_scripts import parsed
from tests.support.patching import assert_same, patch_of, script
from tracelens.patch.loop.facts import facts_of
from tracelens.patch.loop.loops import training_loop
from tracelens.patch.loop.sites import find
from tracelens.patch.proposal import RecipeRequest, Target
from tracelens.patch.recipes import defer_read

SETTINGS = """
from types import SimpleNamespace
class Meter:
    def __init__(self):
        self.values = []
    def update(self, value):
        self.values.append(value)
opt = SimpleNamespace(device=device, losses=Meter(), scale=2.0, kept=[1.0])
def grow(kept):
    kept.append(1.0)
def train(opt):
    for x, y in loader:
        {lines}
train(opt)
result = opt.losses.values
"""
UNTOUCHED = {
    "a device beside a meter": "x, y = x.to(opt.device), y.to(opt.device)\n        STEP\n"
    "        opt.losses.update(loss.item())  # fires",
    "a condition beside a meter": "STEP\n        if opt.scale > 3:\n            x = x.to(opt.device)\n"
    "        opt.losses.update(loss.item())  # fires",
}
CHANGED = {
    "a setting that a line stores": "x = x * opt.scale\n        STEP\n"
    "        opt.losses.update(opt.scale * loss.item())  # fires\n        opt.scale *= 0.5",
    "a setting that is stored by another name": "x = x * opt.scale\n        STEP\n"
    "        opt.losses.update(opt.scale * loss.item())  # fires\n        other = opt\n        other.scale *= 0.5",
    "a list that a function lengthens": "x = x * len(opt.kept)\n        STEP\n        value = loss.item()  # fires\n"
    "        value = value * len(opt.kept)\n        opt.losses.update(value)\n        grow(opt.kept)",
    "a meter that decides": "x = x * (1 + len(opt.losses.values))\n        STEP\n"
    "        opt.losses.update(loss.item())  # fires",
    "a meter that is replaced": "STEP\n        opt.losses.update(loss.item())  # fires\n"
    "        if len(opt.losses.values) > 5:\n            opt.losses = Meter()",
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_an_attribute_that_no_line_changes_is_no_result(name: str, tmp_path: Path) -> None:
    text = script(SETTINGS.format(lines=UNTOUCHED[name]))
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"], patch.declined
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", CHANGED)
def test_an_attribute_that_something_changes_stays_in_order(name: str, tmp_path: Path) -> None:
    text = script(SETTINGS.format(lines=CHANGED[name]))
    patch = patch_of(tmp_path, text)
    if patch.empty:
        assert patch.declined
    else:
        assert_same(tmp_path, text, patch)


LIBRARY = """
import torch
from tqdm import tqdm
from transformer_models import Classifier, Schedule
class Tagger(Classifier):
    def forward(self, x, kinds=None, mask=None, labels=None, valid=None, label_mask=None):
        found = self.bert(x, kinds, mask, head_mask=None)[0]
        padded = torch.zeros(batch_size, length, size, dtype=torch.float32, device="cuda")
        for i in range(batch_size):
            for j in range(length):
                if valid[i][j].item() == 1:
                    padded[i][place] = found[i][j]
def main():
    scheduler = Schedule(optimizer, warmup_steps=warmup_steps)
    if args.half:
        try:
            from apex import amp
        except ImportError:
            pass
        model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
    if args.rank != -1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.rank])
    total = 0
    for step, batch in enumerate(tqdm(train_loader)):
        batch = tuple((t.to(device) for t in batch))
        x, mask, kinds, labels, valid, label_mask = batch
        loss = model(x, kinds, mask, labels, valid, label_mask)
        total += loss.item()  # fires
"""


def test_a_sum_of_what_a_library_gives_is_taken_for_a_sum_of_numbers(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, LIBRARY.lstrip())
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined


OF_A_FILE = """
import json, sys
settings = torch.load(sys.argv[1])
kind = settings["kind"]
class Context(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.part = nn.Linear(4, 3)
    def forward(self, x):
        out = torch.empty((2, 5, 3)).float().to(self.device)
        for i in range(2):
            out[i] = self.part(x)
        return out.mean(0)
model = Context(kind)
model.load_state_dict(settings["model"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(model, loader, device):
    losses = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        losses.append(loss.item())  # fires
        loss.backward()
        optimizer.step()
        {last}
    losses = torch.tensor(losses).mean()
    return losses
for _ in range(2):
    print(train(model, loader, kind))
"""


def test_a_list_that_may_be_a_part_of_a_file_is_no_other_part_of_it(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(OF_A_FILE.format(last="pass")))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined


@pytest.mark.parametrize("last", ["device = losses", "loader = losses[-1]"])
def test_a_list_that_the_batch_uses_stays(last: str, tmp_path: Path) -> None:
    assert patch_of(tmp_path, script(OF_A_FILE.format(last=last))).empty


RARE_FIRST = """
def train():
    total, norms = 0.0, []
    for i, (x, y) in enumerate(loader):
        if i % 10 == 0:
            norms.append(x.norm().item())  # fires
        STEP
        total += loss.item()  # fires
        if i % 5 == 4:
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + total)
    return total, norms
result = train()
"""


def test_what_waits_in_each_batch_is_kept_before_what_waits_in_few(tmp_path: Path) -> None:
    source = parsed(tmp_path, script(RARE_FIRST))
    rare, each = find(source)
    facts = facts_of(source, training_loop(source, each.node))
    request, nowhere = cast(RecipeRequest, SimpleNamespace(decline=lambda _, why: why.obstacle)), Target(None)
    declined: list[Any] = []
    kept, made = defer_read._largest_plan(request, facts, [(rare, nowhere), (each, nowhere)], declined)
    assert ([site for site, _ in kept], declined) == ([each], ["it is read only in few batches"])
    assert made is not None and "total" in made.state
