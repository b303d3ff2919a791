"""What a reader of files gives is one thing: a part of it under another name, or the whole that has the part."""

from __future__ import annotations

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

CODE = (
    "import json, pickle, toml, yaml\nimport numpy as np\nimport pandas as pd\nfrom omegaconf import OmegaConf\n"
    "file = open('x')\ndef show(state):\n    print(len(state['losses']))\n"
)
SOURCES = {
    "json.load": "json.load(file)",
    "json.loads": "json.loads(file.read())",
    "torch.load": "torch.load('x.pt')",
    "torch.load, tensors and lists": "torch.load('x.pt', weights_only=True)",
    "pickle": "pickle.load(open('x', 'rb'))",
    "yaml": "yaml.safe_load(file)",
    "yaml with a loader": "yaml.load(file, Loader=yaml.FullLoader)",
    "toml": "toml.load('x.toml')",
    "omegaconf": "OmegaConf.load('x.yaml')",
    "numpy": "np.load('x.npz')",
}
USES = {
    "another name of the part": ("kept = state['losses']", "state['losses'].append(loss.item())", "print(len(kept))"),
    "the part again": ("kept = state['losses']", "kept.append(loss.item())", "print(len(state['losses']))"),
    "by get": ("kept = state.get('losses')", "kept.append(loss.item())", "print(len(state['losses']))"),
    "the whole is shown": ("kept = state['losses']", "kept.append(loss.item())", "show(state)"),
    "the whole is saved": ("kept = state['losses']", "kept.append(loss.item())", "torch.save(dict(state), 'y.pt')"),
    "an item of a part": ("kept = state['losses']", "state['losses'][0] = loss.item()", "print(kept[0])"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_part_is_the_same_under_each_name(source: str, use: str) -> None:
    before, later, stays = USES[use]
    case = Case(f"STEP\n{later}  # later\nif i % 5 == 4:\n    {stays}", CODE, f"state = {SOURCES[source]}\n{before}")
    assert asked(two_files(case, SURROUNDINGS["function"])).tier != "safe"


LISTS = {
    "a text that is taken apart": "'a b'.split()",
    "what a pattern finds": "re.findall('a', 'b')",
    "names of files": "os.listdir('.')",
    "numbers of a tensor": "torch.zeros(3).tolist()",
    "rows of a table": "list(csv.reader(file))[0]",
    "a part of a tree": "ElementTree.parse('x').getroot()",
}


@pytest.mark.parametrize("made", LISTS)
def test_a_list_that_a_library_makes_is_not_known_to_be_another(made: str) -> None:
    code = f"import csv, os, re\nfrom xml.etree import ElementTree\n{CODE}"
    case = Case("STEP\nkept.append(loss.item())  # later\nprint(len(same))", code, f"kept = same = {LISTS[made]}")
    assert asked(one_file(case, SURROUNDINGS["function"])).tier != "safe"


FRAMES = {
    "a column": ("frame.loc[i, 'loss'] = loss.item()", "print(frame['loss'].mean())"),
    "values": ("values[i] = loss.item()", "print(frame['loss'].mean())"),
}


@pytest.mark.parametrize("use", FRAMES)
def test_a_table_of_a_file_is_one_table(use: str) -> None:
    later, stays = FRAMES[use]
    before = "frame = pd.read_csv('x.csv')\nvalues = frame['loss'].values"
    case = Case(f"STEP\n{later}  # later\n{stays}", CODE, before)
    assert asked(one_file(case, SURROUNDINGS["function"])).tier != "safe"


@pytest.mark.parametrize("source", SOURCES)
def test_settings_that_are_only_read_stay_proved(source: str) -> None:
    body = "STEP\nprint(loss.item(), state['name'], f\"{state['lr']}\")  # later\nfactor = state['lr'] * 2\ntotal = i"
    answer = asked(one_file(Case(body, CODE, f"state = {SOURCES[source]}"), SURROUNDINGS["function"]))
    assert answer.tier == "safe", answer


@pytest.mark.parametrize("mode", ["mmap_mode='r+'", "mmap_mode=mode", "'r+'"])
def test_an_array_that_is_a_file_is_written_where_the_file_is(mode: str) -> None:
    case = Case(
        "STEP\nkept[i] = loss.item()  # later\nif i % 5 == 4:\n    print(np.load('x.npy').sum())",
        CODE + "mode = 'r+'\n",
        f"kept = np.load('x.npy', {mode})",
    )
    assert asked(two_files(case, SURROUNDINGS["function"])).tier != "safe"
