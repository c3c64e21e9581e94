"""Words that mean nearly the same as a question's."""

from __future__ import annotations

import pytest

from memforest_core.domain.indexed import term_index
from memforest_core.domain.text import terms
from memforest_core.recall.question import ENGLISH_LIST, MOST, parse_question, related_terms
from memforest_core.recall.retrieve import expanded

FLOOR = 0.5
A_WORD = 12
"""The list's lowest cosine, and the relatives of one stem."""
LINES = ENGLISH_LIST.read_text(encoding="utf-8").splitlines()


def related(question: str) -> dict[str, float]:
    return related_terms(question, parse_question(question).terms)


@pytest.mark.parametrize(
    ("question", "said"),
    [("Where is the bicycle?", "bike"), ("Which movie did she like?", "film"), ("Has he seen a doctor?", "physician")],
)
def test_a_word_brings_others_that_mean_the_same(question: str, said: str) -> None:
    [term] = terms(said)
    assert FLOOR <= related(question)[term] <= 1.0


def test_what_the_question_says_itself_is_no_relative() -> None:
    assert "bike" in related("Is the bicycle new?")
    assert "bike" not in related("Is the bicycle a bike?")


def test_a_name_has_no_relatives() -> None:
    """Given a name that is a word too, then only the word written small brings others along."""
    assert related("Where does Rose live?") == related("Where does Quentin live?")
    assert related("Where does the rose live?") != related("Where does Rose live?")


def test_a_question_in_another_language_has_none() -> None:
    assert related("Wo hat sie gestern ihr Auto abgestellt und warum ist das nicht hier?") == {}


def test_the_nearest_of_many_are_taken() -> None:
    many = "Which bicycle, doctor, movie, garden, river, kitchen, teacher, winter, music, dog, train, letter and apple?"
    found = related(many)
    assert len(found) == MOST
    assert min(found.values()) >= max(FLOOR, min(related("Which apple?").values()))


def test_relatives_weigh_less_than_words_and_wording_more() -> None:
    question = parse_question("Where does she live with her bicycle?")
    plain, reported, near = (expanded(question, *given) for given in ((0.0, 0.0), (0.65, 0.0), (0.65, 0.3)))
    weights = dict(zip(near.indices, near.values, strict=True))
    assert plain == question.sparse()
    assert {weights[index] for index in plain.indices} == {1.0}
    assert {weights[index] for index in set(reported.indices) - set(plain.indices)} == {0.65}
    assert weights[term_index("bike")] == pytest.approx(0.3 * related(question.text)["bike"])
    assert list(near.indices) == sorted(near.indices)


def test_the_list_is_in_order_and_in_its_bounds() -> None:
    """Given the list that comes along, then it can be searched: a stem a line, in order, each with a few near stems."""
    assert len(LINES) > 5_000
    stems = [line.split(" ", 1)[0] + " " for line in LINES]
    assert stems == sorted(set(stems))
    for line in LINES:
        stem, *near = line.split(" ")
        pairs = {other: int(hundredths) / 100 for other, _, hundredths in (pair.rpartition(":") for pair in near)}
        assert 1 <= len(pairs) <= A_WORD
        assert stem not in pairs
        assert min(pairs.values()) >= FLOOR
        assert sorted(pairs, key=lambda other, pairs=pairs: (-pairs[other], other)) == list(pairs)
