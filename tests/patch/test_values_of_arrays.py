"""Values of arrays and numbers that were read are no tensors: nothing is asked of them that only tensors have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

VALUES = {
    "a mean of an array": "acc.cpu().numpy().mean().item()",
    "one of an array": "acc.cpu().numpy()[0].item()",
    "one of a flat array": "acc.cpu().numpy().flatten()[0].item()",
    "an array of what is computed on the host": "(acc.cpu() * 2).numpy().mean().item()",
    "one of a list": "acc.tolist()[0]",
    "a number of numpy": "(loss.item() * scale).item()",
    "a length": "float(acc.size(0)) + loss.item()",
    "a comparison": "float(torch.equal(acc, acc)) + loss.item()",
    "the largest of an array": "np.abs(acc.cpu().numpy()).max().item()",
    "a sum of an array as a number": "int(acc.cpu().numpy().sum())",
    "the place of the largest": "int(acc.cpu().numpy().argmax())",
    "an array that was made of numbers": "np.array(acc.tolist()).mean().item()",
}
LOOP = (
    "import numpy as np\nscale = np.float32(2)\nvalues = []\nfor x, y in loader:\n    STEP\n"
    "    acc = (model(x).argmax(1) == y).float()\n    values.append({})  # fires\nprint(values)\n"
)


STAYS = {"an array of what is computed on the host", "a number of numpy"}


@pytest.mark.parametrize("name", sorted(VALUES.keys() - STAYS))
def test_a_patched_loop_asks_arrays_for_nothing_that_only_tensors_have(name: str, tmp_path: Path) -> None:
    text = script(LOOP.format(VALUES[name]))
    patch = patch_of(tmp_path, text)
    assert patch.hunks
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", sorted(STAYS))
def test_a_value_that_no_tensor_gives_stays_where_it_is(name: str, tmp_path: Path) -> None:
    assert not patch_of(tmp_path, script(LOOP.format(VALUES[name]))).hunks


CHANGES = {
    "a difference": "arr -= arr.max()",
    "one of it": "arr[0] = 9",
    "a method": "arr.sort()",
}
NO_CHANGES = {
    "another array": "arr = arr - arr.max()",
    "a change that stays where it is": "np.abs(arr, out=arr)",
    "a sum": "total = arr.sum()",
}
IN_PLACE = (
    "import numpy as np\nvalues = []\nfor x, y in loader:\n    STEP\n    out = model(x)\n"
    "    arr = out.detach().cpu().numpy()  # fires\n    {}\n"
    "    values.append((arr.sum().item(), out[0, 0].item()))  # fires\nprint(values)\n"
)


@pytest.mark.parametrize("name", CHANGES)
def test_an_array_that_is_changed_in_place_may_be_the_tensor_s_own_memory(name: str, tmp_path: Path) -> None:
    tiers = {hunk.tier for hunk in patch_of(tmp_path, script(IN_PLACE.format(CHANGES[name]))).hunks}
    assert "safe" not in tiers


@pytest.mark.parametrize("name", NO_CHANGES)
def test_an_array_that_is_only_computed_with_is_read_later(name: str, tmp_path: Path) -> None:
    text = script(IN_PLACE.format(NO_CHANGES[name]))
    patch = patch_of(tmp_path, text)
    assert {hunk.tier for hunk in patch.hunks} == {"safe"}
    assert_same(tmp_path, text, patch)
