"""Kinds of values: what a question wants, and what states one of it."""

from __future__ import annotations

import pytest

from memforest_core.domain.value_kinds import Kind, corrects, has_value, kind_of
from memforest_core.domain.words import words_of

WANTED = [
    ("What's the door code at the studio now?", Kind.CODE, "It's 7H41 since the break-in", "the door sticks again"),
    ("How long did the ferry strike last?", Kind.DURATION, "nine days.", "9 boats, all rusty"),
    ("What time does the pottery class begin?", Kind.CLOCK, "half past six", "it begins with clay"),
    ("When did Odile sell the kayak?", Kind.DATE, "the 14th, to a vicar", "to a vicar, for 90"),
    ("On what day is the audit?", Kind.DATE, "thursday, god help us", "is it thursday?"),
    ("How much did Odile get for the kayak?", Kind.AMOUNT, "ninety and a hug", "the 14th of May"),
    ("Wann wird das Dach repariert?", Kind.DATE, "am 9. März", "90 Ziegel"),
    ("Wie viel hat das Dach gekostet?", Kind.AMOUNT, "4300, ein Witz", "am 9. März"),
    ("¿Cuándo se casa Inma?", Kind.DATE, "el sábado", "con un pianista"),
    ("¿Cuánto tiempo duró la obra?", Kind.DURATION, "tres semanas", "tres albañiles"),
    ("Combien coûte le vélo ?", Kind.AMOUNT, "320 euros", "il est rouge"),
    ("C'est quoi le code du portail ?", Kind.CODE, "82C4 depuis hier", "il est cassé"),
    ("搬家是哪天？", Kind.DATE, "上周五搬的", "搬了三十箱"),
    ("車はいくらだった？", Kind.AMOUNT, "80万円だった", "赤い車だよ"),
]


@pytest.mark.parametrize(("question", "kind", "value", "none"), WANTED, ids=[one[0] for one in WANTED])
def test_what_is_wanted_is_known_from_the_rest(question: str, kind: Kind, value: str, none: str) -> None:
    spoken = words_of(question)
    assert kind_of(question) is kind
    assert [has_value(text, kind, spoken) for text in (value, none)] == [True, False]


@pytest.mark.parametrize(
    "question", ["When the mill burnt, where did she go?", "Who pays?", "Dove vive Ada?", "Quem chegou depois?"]
)
def test_other_questions_and_languages_want_none(question: str) -> None:
    assert kind_of(question) is None


def test_what_takes_back_a_value() -> None:
    spoken = words_of("How much is the kayak?")
    said = ["no sorry, 95", "scratch that: 95", "95, not 90", "95 it is", "so sorry for your loss"]
    assert [corrects(text, spoken) for text in said] == [True, True, True, False, False]
