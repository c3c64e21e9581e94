"""Kinds of values: what a question wants, and what states one of it."""

from __future__ import annotations

from time import process_time

import pytest

from memforest_core.domain.value_kinds import Kind, corrects, has_value, kind_of
from memforest_core.domain.words import words_of

WANTED = [
    ("What's the door code at the studio now?", Kind.CODE, "It's 7H41 since the break-in", "the door sticks again"),
    ("What's the code of my aunt's flat?", Kind.CODE, "hers is 7H41", "hers is new"),
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
    "question",
    [
        "When the mill burnt, where did she go?",
        "Who pays?",
        "What does he pay attention to?",
        "Dove vive Ada?",
        "Quem chegou depois?",
    ],
)
def test_other_questions_and_languages_want_none(question: str) -> None:
    assert kind_of(question) is None


TAKES_BACK = [
    ("How much is the kayak?", ["no sorry, 95", "scratch that: 95", "95, not 90", "make that six", "no i mean 95"]),
    ("Wie viel hat das Dach gekostet?", ["sorry, 95", "95, nicht 90", "vergiss es, 95"]),
    ("¿Cuánto cuesta el piso de la tía?", ["perdón, es 95", "no el 5"]),
    ("誕生日はいつですか", ["それは違う、5日", "間違えた、5日"]),
]
TAKES_NOTHING_BACK = [
    ("How much is the kayak?", ["95 it is", "so sorry for your loss", "sorry it's been 3 weeks", "not 5 minutes ago"]),
    ("How much is the kayak?", ["sorry i'm late, 5 minutes", "sorry, 5 min", "he can't make it at 5", "is 5 wrong?"]),
    ("How much is the kayak?", ["don't forget that it's 5", "you can't go wrong with 20", "i mean 50 is a lot"]),
    ("Wie viel hat das Dach gekostet?", ["sorry für die 5 Minuten", "vergiss nicht 3 Eier", "nicht 5 Minuten her"]),
    ("¿Cuánto cuesta el piso de la tía?", ["perdón, llego 5 minutos tarde", "un error 404"]),
    ("誕生日はいつですか", ["間違いなく500円"]),
]


@pytest.mark.parametrize(
    ("question", "said", "so"), [(*one, True) for one in TAKES_BACK] + [(*one, False) for one in TAKES_NOTHING_BACK]
)
def test_what_takes_back_a_value(question: str, said: list[str], so: bool) -> None:
    assert [corrects(text, words_of(question)) for text in said] == [so] * len(said)


@pytest.mark.parametrize("turn", ["?" + 100_000 * "a", 50_000 * "(1", 30_000 * "1- " + "1x", 30_000 * "1 "])
def test_a_long_turn_is_read_once(turn: str) -> None:
    spoken, before = words_of("How much is the kayak?"), process_time()
    assert not corrects(turn, spoken)
    has_value(turn, Kind.CODE, spoken)
    has_value(turn, Kind.AMOUNT, spoken)
    assert process_time() - before < 2.0  # searched from each of its signs it takes tens of seconds
