"""Which capitalized words of a sentence are names."""

from __future__ import annotations

import pytest

from memforest_core.ingest.extract.offline.english_text import names_in


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("I landed in Rome 3 hours ago.", ["Rome"]),
        ("I paid Ana 20 euros.", ["Ana"]),
        ("I paid Ana 20 and left.", ["Ana"]),
        ("I gave Anna 5 books.", ["Anna"]),
        ("I met Ana 2 days ago.", ["Ana"]),
        ("We were in Rome 2019 and loved it.", ["Rome"]),
        ("I use Windows 11 at work.", ["Windows 11"]),
        ("We drove Route 66 and slept.", ["Route 66"]),
        ("My Boeing 747 flight was late.", ["Boeing"]),
    ],
)
def test_a_number_belongs_to_a_name_only_at_the_end_of_its_phrase(sentence: str, names: list[str]) -> None:
    assert list(names_in(sentence)) == names


@pytest.mark.parametrize(
    "sentence",
    [
        "Gather your things and go.",
        "Seeing you was nice.",
        "Exist in peace.",
        "Music helps me.",
        "Art gives me joy.",
        "Nature is calm.",
        "Mental health's a priority.",
        "Creativity is everything to me.",
        "Seven years went by.",
        "Haven't seen it yet.",
        "Guitar lessons are fun.",
    ],
)
def test_a_common_word_that_begins_a_sentence_is_no_name(sentence: str) -> None:
    assert names_in(sentence) == ()


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("Clara has a dog.", ["Clara"]),
        ("Maria told me about it.", ["Maria"]),
        ("Anna's cat died.", ["Anna"]),
        ("Tom and I went home.", ["Tom"]),
        ("Ann paints a lot.", ["Ann"]),
        ("Congrats Caroline on the job!", ["Caroline"]),
        ("Learning German is hard.", ["German"]),
        ("I read Becoming Nicole by Amy Ellis Nutt.", ["Becoming Nicole", "Amy Ellis Nutt"]),
    ],
)
def test_a_name_that_begins_a_sentence_does_something_or_has_something(sentence: str, names: list[str]) -> None:
    assert list(names_in(sentence)) == names
