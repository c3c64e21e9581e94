"""Text: what is kept, what two texts share, and where sentences end."""

from __future__ import annotations

import pytest

from memforest_core.domain.text import (
    clean,
    clipped,
    normalize_name,
    normalize_statement,
    numbers,
    sentences,
    terms,
)


def test_clean_drops_what_a_database_refuses_and_composes_the_rest() -> None:
    assert clean("a\x00b\ud800c e\u0301 🎉\n") == "abc \u00e9 🎉\n"


class TestNormalizeStatement:
    @pytest.mark.parametrize(
        "variant",
        [
            "Bob lives in Boston.",
            "bob  LIVES in\nBoston!",
            "“Bob lives in Boston.”",
            '"Bob lives in Boston".',
            "Ｂob lives in Boston…",
        ],
    )
    def test_surface_differences_do_not_count(self, variant: str) -> None:
        assert normalize_statement(variant) == "bob lives in boston"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Bob paid $3.50.", "Bob paid $3.5."),
            ("Bob lives in Boston.", "Bob doesn't live in Boston."),
            ("The race is on May 8.", "The race is on May 18."),
            ("Bob has a dog.", "Bob has the dog."),
            ("It is over.", "Is it over?"),
        ],
    )
    def test_numbers_dates_negations_and_words_do(self, one: str, other: str) -> None:
        assert normalize_statement(one) != normalize_statement(other)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Bob", "bob"),
        ("Bob's", "bob"),
        ("BOB’S", "bob"),
        ("Dr. Bob Miller", "bob miller"),
        ("the Harborline Freight, Inc.", "harborline freight inc"),
        ("Mr. and", "and"),
        ("The", "the"),
        ("José", "josé"),
        ("J. K. Rowling", "j k rowling"),
        ("दिल्ली", "दिल्ली"),
        ("東京", "東京"),
        ("!!!", ""),
    ],
)
def test_a_name_has_one_key(name: str, key: str) -> None:
    assert normalize_name(name) == key
    assert normalize_name(key) == key


class TestTerms:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("Running runs", ["run", "run"]),
            ("Where did Bob live before Miami?", ["bob", "live", "miami"]),
            ("I don't, isn't, won't", []),
            ("O'Brien's dogs", ["o", "brien", "dog"]),
            ("José at the café", ["jose", "cafe"]),
            ("paid 2,300 dollars, 3.5 kg at 10:30", ["paid", "2300", "dollar", "3.5", "kg", "10:30"]),
            ("a 5k run", ["5k", "run"]),
            ("snake_case", ["snake", "case"]),
            ("東京に住む", ["東京", "京に", "に住", "住む"]),
            ("犬", ["犬"]),
            ("สวัสดี", ["สว", "วั", "ัส", "สด", "ดี"]),
            ("दिल्ली में", ["दिल्ली", "में"]),
            ("🎉 !!! …", []),
            ("", []),
        ],
    )
    def test_words_are_folded_stemmed_and_stripped_of_function_words(self, text: str, found: list[str]) -> None:
        assert terms(text) == found

    def test_another_language_keeps_its_accents_and_its_short_words(self) -> None:
        assert terms("was für Häuser", "german") == ["was", "fur", "haus"]

    def test_an_unknown_language_is_refused(self) -> None:
        with pytest.raises(KeyError):
            terms("saluton mondo", "esperanto_")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I moved. I like it!", ["I moved.", "I like it!"]),
        ("I met Dr. Smith and Mrs. Jones.", ["I met Dr. Smith and Mrs. Jones."]),
        ("We left at 5 p.m. yesterday.", ["We left at 5 p.m. yesterday."]),
        ("So... you tell me. Fine.", ["So... you tell me.", "Fine."]),
        ("i live in boston. my dog is rex", ["i live in boston.", "my dog is rex"]),
        ('"Really?" he said. Then he left.', ['"Really?" he said.', "Then he left."]),
        ('He said "stop." Then left.', ['He said "stop."', "Then left."]),
        ("Biscuit and I. Fifth floor.", ["Biscuit and I.", "Fifth floor."]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ("It cost $3.50 on Jan. 5 there.", ["It cost $3.50 on Jan. 5 there."]),
        ("1. Buy milk\n2. Rest", ["1. Buy milk", "2. Rest"]),
        ("One\n\n  two", ["One", "two"]),
        ("Great! 🎉 I won", ["Great!", "🎉 I won"]),
        ("私は東京に住む。犬がいる！", ["私は東京に住む。", "犬がいる！"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_sentences_are_verbatim_pieces(text: str, pieces: list[str]) -> None:
    assert sentences(text) == pieces
    assert all(piece in text for piece in sentences(text))


@pytest.mark.timeout(5)
@pytest.mark.parametrize("unit", [".", " ", "\n", '"', '."', ". ", " \n", "。", "a."])
def test_the_largest_turn_of_one_repeated_sign_is_cut_in_no_time(unit: str) -> None:
    text = unit * (262_144 // len(unit)) + "x"

    assert sentences(text)[-1].endswith("x")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1,900 dollars", {"1900"}),
        ("1900.50 and 1,900.5", {"1900.5"}),
        ("Three dogs and twenty cats", {"3", "20"}),
        ("3 dogs", {"3"}),
        ("007", {"7"}),
        ("0", {"0"}),
        ("1,5 kg", {"1.5"}),
        ("at 10:30 on 2023-05-08", {"10:30", "2023", "5", "8"}),
        ("phone, stone, often", set()),
        ("٣ cats", {"3"}),
        ("9" * 5_000, {"9" * 5_000}),
    ],
)
def test_numbers_compare_by_value(text: str, found: set[str]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("short", 10, "short"),
        ("one two three", 9, "one two"),
        ("unbroken", 4, "unbr"),
        ("a bbbbbbbbbb", 8, "a bbbbbb"),
        ("anything", 0, ""),
    ],
)
def test_clipped_cuts_at_a_word_where_one_is_near(text: str, limit: int, kept: str) -> None:
    assert clipped(text, limit) == kept
