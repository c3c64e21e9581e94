"""Questions name states in other words than statements tell them."""

from __future__ import annotations

import pytest

from memforest_core.domain.temporal_question import Attribute, question_attributes, telling_terms
from memforest_core.domain.text import terms


@pytest.mark.parametrize(
    ("question", "requested"),
    [
        ("Where does Ann live now?", {Attribute.RESIDENCE}),
        ("What was her previous job?", {Attribute.JOB}),
        ("Which pet did he have before the cat?", {Attribute.PET}),
        ("How much does he weigh?", {Attribute.WEIGHT}),
        ("How is the project coming along?", {Attribute.PROJECT}),
        ("Which dog lived with her?", {Attribute.PET}),
        ("What did they eat in Rome?", set()),
    ],
)
def test_attributes_that_a_question_is_about(question: str, requested: set[Attribute]) -> None:
    assert set(question_attributes(terms(question))) == requested


def test_a_statement_contains_a_telling_term() -> None:
    for attribute, statement in (
        (Attribute.RESIDENCE, "We moved to a flat in Graz."),
        (Attribute.JOB, "She was promoted to analyst."),
        (Attribute.PET, "I adopted a kitten."),
        (Attribute.WEIGHT, "82 kilos this morning."),
        (Attribute.PROJECT, "The prototype was launched."),
    ):
        assert not telling_terms([attribute]).isdisjoint(terms(statement))


def test_no_attribute_has_no_words() -> None:
    assert telling_terms([]) == frozenset()
