"""Every text exists in every language, with the same placeholders."""

from __future__ import annotations

import string

import pytest

from muniment_resources.errors import BugError, KnownError
from muniment_resources.i18n import LANGUAGES, Translator, catalogue, detect_language


def _placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_keys_and_placeholders(language: str) -> None:
    english = {key: _placeholders(text) for key, text in catalogue("en").items() if not key.endswith(".one")}
    other = {key: _placeholders(text) for key, text in catalogue(language).items() if not key.endswith(".one")}
    assert other == english


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty(language: str) -> None:
    assert [key for key, text in catalogue(language).items() if not text.strip()] == []


def test_chinese_texts_are_chinese() -> None:
    chinese = catalogue("zh_CN")
    untranslated = [
        key
        for key, text in catalogue("en").items()
        if key in chinese and chinese[key] == text and sum(c.isalpha() for c in text) > 12
    ]
    assert untranslated == []


def test_error_sentence_is_filled_from_parameters() -> None:
    text = Translator("en").error(KnownError("E-BUG", type="ValueError", log="/x/log"))
    assert "ValueError" in text
    assert "/x/log" in text


def test_parameter_that_is_a_code_is_put_into_words() -> None:
    died = KnownError("E-WORKER-DIED", role="inference", cause="out_of_memory")
    assert "out of memory" in Translator("en").error(died)
    assert "out_of_memory" not in Translator("zh_CN").error(died)
    assert "novel" in Translator("en").error(KnownError("E-WORKER-DIED", role="inference", cause="novel"))


def test_unknown_key_and_missing_value_are_bugs() -> None:
    translator = Translator("en")
    with pytest.raises(BugError):
        translator.text("no.such.key")
    with pytest.raises(BugError):
        translator.text("errors.E-BUG", type="x")


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["zh_CN.UTF-8"], "zh_CN"), ([None, "", "zh"], "zh_CN"), (["en_GB"], "en"), (["C"], "en"), (["fr"], "en")],
)
def test_language_is_detected(names: list[str | None], expected: str) -> None:
    assert detect_language(names) == expected
