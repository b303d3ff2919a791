"""A message is English wherever it is compared, kept or written, and the reader's language where it is shown."""

from __future__ import annotations

import copy
import json
import pickle
from gettext import NullTranslations
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.pseudo import PseudoLanguage, foreign
from tracelens import messages
from tracelens.messages import capital, entry, joined, say, say_count, shown, value_in


class Chinese(NullTranslations):
    """Three sentences in another order of words, with another comma."""

    KNOWN: ClassVar = {
        "{who} costs {saved} of every {step} step": "每步 {step} 中，{who}占 {saved}",
        "the DataLoader": "数据加载器",
        ", ": "、",
        "{count} waits": "{count} 次等待",
    }

    def gettext(self, message: str) -> str:
        return self.KNOWN.get(message, message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.KNOWN.get(msgid2, msgid2)


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "catalogue", Chinese)


SENTENCE = say("{who} costs {saved} of every {step} step", who=say("the DataLoader"), saved="3 ms", step="9 ms")


def test_a_message_is_its_english_sentence() -> None:
    assert SENTENCE == "the DataLoader costs 3 ms of every 9 ms step"
    assert shown(SENTENCE) == SENTENCE and type(shown(SENTENCE)) is str
    assert json.dumps([SENTENCE, capital(SENTENCE)])[2:3] == "t"


def test_the_sentence_and_its_values_are_translated_in_the_order_of_the_language(chinese: None) -> None:
    assert shown(SENTENCE) == "每步 9 ms 中，数据加载器占 3 ms"
    assert json.loads(json.dumps(SENTENCE)) == "the DataLoader costs 3 ms of every 9 ms step"
    assert shown(joined(", ", [say("the DataLoader"), "train.py"])) == "数据加载器、train.py"
    assert shown(say_count("{count} wait", "{count} waits", 1)) == "1 次等待"


def test_what_is_no_message_is_data(chinese: None) -> None:
    assert shown("the DataLoader") == "the DataLoader"


@pytest.mark.parametrize("again", [copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))])
def test_a_copy_is_still_translated(again: object, chinese: None) -> None:
    assert callable(again) and shown(again(SENTENCE)) == shown(SENTENCE) != SENTENCE


def test_english_counts_as_english_does() -> None:
    said = [say_count("{count} wait", "{count} waits", count) for count in (0, 1, 2)]
    assert said == ["0 waits", "1 wait", "2 waits"]


def test_the_text_of_a_rule_keeps_its_braces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "workers={value}, options={'a': 1}"
    assert entry(text) == text and entry(text, "4") == "workers=4, options={'a': 1}"
    monkeypatch.setattr(messages, "catalogue", PseudoLanguage)
    assert shown(entry(text, "four")) == foreign("workers={0}, options={{'a': 1}}").format("four")


def test_a_value_is_found_however_deep() -> None:
    assert value_in(say("{a}.", a=SENTENCE), "saved") == "3 ms"
    assert value_in("plain", "saved") == "" == value_in(SENTENCE, "none")


@pytest.mark.parametrize(
    ("language", "known"),
    [("", False), ("C", False), ("en_US.UTF-8", False), ("en:xx", False), ("xx", True), ("yy:xx", True), ("yy", False)],
)
def test_the_catalogue_is_that_of_the_users_language(
    language: str, known: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo

    folder = tmp_path / "xx" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalog = Catalog()
    catalog.add("not tried", "xx")
    with (folder / "tracelens.mo").open("wb") as file:
        write_mo(file, catalog)
    for name in messages.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANGUAGE", language)
    monkeypatch.setattr(messages, "FOLDER", tmp_path)
    monkeypatch.setattr(messages, "catalogue", messages.catalogue.__wrapped__)
    assert shown(say("not tried")) == ("xx" if known else "not tried")
