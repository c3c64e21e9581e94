"""Any text: nothing raises, nothing is invented, the same input gives the same output."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.domain.dates import find_date_phrases, resolve
from memforest_core.domain.extractive import summarize
from memforest_core.domain.indexed import bm25_weights, count_terms
from memforest_core.domain.languages import STOP_WORDS, language_of
from memforest_core.domain.text import (
    clean,
    clipped,
    normalize_name,
    normalize_statement,
    numbers,
    sentences,
    terms,
    variants,
)
from memforest_core.domain.times import EARLIEST, LATEST

ANY_TEXT = st.text(st.characters(), max_size=200)
"""Every code point, lone surrogates and NUL included."""
_DATE_WORDS = """last next this the of in on at since until before from to ago a an two 3 12 31 2023 99 1999 '21 8th
May may March sun Friday friday weekend week month year days weeks Christmas New Year's Eve Easter summer winter
morning noon 5 pm 10:30 2023-02-29 / - , . few couple between and for over early mid decade century yesterday
tomorrow 90s 1/2/3 first"""
WORDS = st.sampled_from(_DATE_WORDS.split())
PHRASES = st.lists(WORDS, max_size=9).map(" ".join) | ANY_TEXT
MOMENTS = st.datetimes(datetime(1000, 1, 2), datetime(2999, 12, 30), timezones=st.just(UTC))
ZONES = st.sampled_from(["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Apia", "America/Sao_Paulo"])


@settings(max_examples=400)
@given(PHRASES, MOMENTS, ZONES, st.booleans())
def test_a_date_phrase_is_a_plausible_interval_or_unknown(
    phrase: str, said_at: datetime, zone: str, future: bool
) -> None:
    span = resolve(phrase, said_at, zone, future=future)

    assert span == resolve(phrase, said_at, zone, future=future)
    if span.start is not None and span.end is not None:
        assert EARLIEST <= span.start < span.end < LATEST


@settings(max_examples=60)
@given(PHRASES, st.sampled_from([("fr",), ("de", "en"), ("es",)]))
def test_other_languages_do_not_raise_either(phrase: str, languages: tuple[str, ...]) -> None:
    resolve(phrase, datetime(2023, 5, 21, tzinfo=UTC), "UTC", languages)


@settings(max_examples=200)
@given(PHRASES)
def test_found_phrases_stand_in_the_sentence_in_order(sentence: str) -> None:
    start = 0
    for phrase in find_date_phrases(sentence):
        start = sentence.index(phrase, start) + len(phrase)


@settings(max_examples=200)
@given(ANY_TEXT)
def test_sentences_are_parts_in_order_and_lose_only_space(text: str) -> None:
    parts = sentences(text)

    start = 0
    for piece in parts:
        start = text.index(piece, start) + len(piece)
    assert "".join("".join(parts).split()) == "".join(text.split())


@settings(max_examples=200)
@given(ANY_TEXT)
def test_cleaned_text_is_stored_as_it_is(text: str) -> None:
    cleaned = clean(text)

    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned


@settings(max_examples=200)
@given(ANY_TEXT)
def test_normal_forms_are_stable(text: str) -> None:
    assert terms(text) == terms(text)
    assert language_of(text) in STOP_WORDS
    assert all(forms and all(forms) for forms in variants(text))
    assert count_terms(text).length >= 0
    assert numbers(text) == numbers(text)
    assert normalize_statement(text) == normalize_statement(text)
    name = normalize_name(text)
    assert name == name.strip()
    indices, weights = bm25_weights(count_terms(text), leaves=1)
    assert list(indices) == sorted(indices)
    assert all(weight > 0 for weight in weights)


@settings(max_examples=200)
@given(ANY_TEXT | PHRASES)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    held = set(terms(text))

    assert not held or held & frozenset().union(*variants(text))


@settings(max_examples=100)
@given(ANY_TEXT, st.integers(0, 60))
def test_clipped_text_is_a_beginning(text: str, limit: int) -> None:
    assert len(clipped(text, limit)) <= max(0, limit)
    assert text.startswith(clipped(text, limit))


@settings(max_examples=100)
@given(st.lists(ANY_TEXT, max_size=12), st.integers(0, 300))
def test_summaries_keep_to_the_budget(texts: list[str], budget: int) -> None:
    summary = summarize(texts, budget)

    assert len(summary) <= budget
    assert summary == summarize(texts, budget)
