"""The audit page names every event and field in the user's language."""

from __future__ import annotations

import pytest

from muniment_app.audit.events import EventType
from muniment_app.bridge.events import event_name, field_lines, summary
from muniment_app.services.api import AuditEvent
from muniment_resources.i18n import LANGUAGES, Translator
from muniment_runtime.headroom import chain


def event(type_: str, **fields: object) -> AuditEvent:
    return AuditEvent(7, "2025-11-03T14:05:10Z", type_, "ab" * 32, fields, {})


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_event_type_has_a_name(language: str) -> None:
    translator = Translator(language)
    names = {type_.value: event_name(translator, type_.value) for type_ in EventType}
    assert [type_ for type_, name in names.items() if name == type_] == []
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [chain.MEMORY_AVAILABLE, chain.CGROUP, chain.WHAT_IF, chain.UNKNOWN])
def test_every_limit_has_a_sentence(language: str, name: str) -> None:
    translator = Translator(language)
    assert translator.text(f"plan.limit.{name}", detail="/a", size="1 MiB")
    assert translator.text(f"plan.binding.{name}", detail="/a", size="1 MiB")


def test_summary_starts_with_what_matters_and_leaves_out_zeros() -> None:
    fields = {"anonymous_bytes": 100 << 20, "context": 2048, "load_ms": 1600, "model": "m-1", "left_out": 0}
    assert summary(Translator("en"), event("model.loaded", **fields)) == "model m-1 · context 2,048 · loaded in 1.6 s"
    decision = event("runtime.decision", profile="batch", chosen=1, candidates=[{"model": "a"}, {"model": "b"}])
    assert summary(Translator("en"), decision) == "model b · profile batch"
    assert summary(Translator("zh_CN"), event("model.verified", intact=False, bytes=512 << 20)) == (
        "完整 否 · 大小 512 MiB"
    )


def test_details_show_each_record_of_a_field_on_its_line_and_hashes_whole() -> None:
    lines = field_lines(
        Translator("en"),
        event(
            "answer.completed",
            citations=[{"n": 1, "page": 5}, {"n": 2, "page": 6}],
            model_sha256="c" * 64,
            ttft_micros=900_000,
            support=["exact", "none"],
            later_field=None,
        ),
    )
    assert lines == [
        "citations:",
        "    0: n 1 · page 5",
        "    1: n 2 · page 6",
        "model hash: " + "c" * 64,
        "first word: 0.9 s",
        "support: exact, none",
        "later_field: –",
    ]


def test_an_event_of_a_newer_version_is_shown_as_it_is() -> None:
    assert event_name(Translator("en"), "lab.measured") == "lab.measured"
