"""A turn with the value that is wanted has its topic from the turns before it."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.index.vector_index import PointKind
from memforest_core.recall.passages import ABOUT, CORRECTED, FADES, NEAR, behind, with_topics
from memforest_core.recall.service import RecallService
from memforest_core.recall.temporal import SERIES, VALUE
from memforest_core.settings import RecallSettings
from tests.unit.recall.memory import TENANT, OneVector, ScriptedIndex, named
from tests.unit.recall.test_series import Given

S, OTHER = UUID(int=1), UUID(int=2)


def test_a_value_has_a_part_of_the_topic_until_the_next_value() -> None:
    evidence = {(S, 2): 1.0, (S, 5): 0.1}
    found = with_topics(evidence, {(S, 5), (S, 7), (OTHER, 3), (S, 2 + NEAR + 1)}, ())
    assert found == {(S, 5): FADES**3, (S, 7): 0.0, (OTHER, 3): 0.0, (S, 2 + NEAR + 1): 0.0}
    assert behind([(S, 2)]) == {(S, 2 + step) for step in range(1, NEAR + 1)}


def test_a_correction_goes_before_what_it_takes_back_and_nothing_else() -> None:
    evidence = {(S, 1): 0.9, (S, 4): 0.2, (OTHER, 1): ABOUT / 2, (OTHER, 2): 0.2}
    found = with_topics(evidence, set(evidence), {(S, 4), (OTHER, 2)})
    assert found[S, 4] == 0.9 + CORRECTED
    assert found[OTHER, 2] == 0.2


KAYAK = [
    ("Odile", "sold the kayak!!"),
    ("Ann", "to who"),
    ("Odile", "a vicar. he cried"),
    ("Odile", "90."),
    ("Ann", "the vicar paid?"),
    ("Odile", "no sorry, 95, he gave me a fiver at the gate"),
]
SHED = [("Odile", "the shed has a lock now: 7H41"), ("Ann", "fancy"), ("Odile", "and 12 chairs")]


def recalled(question: str, *sessions: list[tuple[str, str]], near: str = "kayak") -> list[tuple[str, set[str]]]:
    """Texts and signals, the best first; what has the word ``near`` is near the question."""
    forest, index = Given(), ScriptedIndex()
    forest.speakers = lambda _: [("odile", "Odile"), ("ann", "Ann")]  # type: ignore[method-assign,assignment]
    for days, turns in enumerate(sessions):
        forest.session(f"s{days}", *turns, days=days)
        for ordinal, (_, text) in enumerate(turns):
            likeness = 0.9 - days / 100 if near in text else 0.3
            index.points[named(f"s{days}/{ordinal}")] = (PointKind.CELL, 10 * likeness, likeness)
            if near in text:
                index.points[forest.fact(f"Odile: {text}", f"s{days}", ordinal)] = (PointKind.FACT, 9.0, likeness)
    service = RecallService(forest, index, OneVector(), RecallSettings())  # type: ignore[arg-type]
    found = service.recall(TENANT, "alice", question, mode="flat").evidence
    return [(piece.text.split(": ", 1)[1], set(piece.signals)) for piece in found]


def test_the_corrected_amount_is_first_though_another_turn_names_the_thing() -> None:
    found = recalled("How much did Odile get for the kayak?", KAYAK, SHED)
    assert [text for text, _ in found[:3]] == [KAYAK[5][1], KAYAK[3][1], KAYAK[0][1]]
    assert [VALUE in signals for _, signals in found[:3]] == [True, True, False]


def test_neither_somebody_elses_value_nor_minutes_end_a_topic() -> None:
    said = [
        KAYAK[0],
        ("Ann", "mine was 400"),
        ("Odile", "90."),
        ("Odile", "late, 5 minutes"),
        ("Odile", "no sorry, 95"),
    ]
    found = recalled("How much did Odile get for the kayak?", said, SHED)
    assert [text for text, _ in found[:2]] == ["no sorry, 95", "90."]


@pytest.mark.parametrize("question", ["Who bought the kayak of Odile?", "Quanto recebeu Odile?"])
def test_no_kind_no_lift(question: str) -> None:
    found = recalled(question, KAYAK, SHED)
    assert found[0][0] == KAYAK[0][1]
    assert not any(VALUE in signals for _, signals in found)


def test_the_last_code_is_current_though_its_turn_names_nothing() -> None:
    door = [("Odile", "they changed the door of the studio, new code"), ("Ann", "tell"), ("Odile", "it's 3K77")]
    found = recalled(
        "What's the code of the studio now, Odile?", SHED, [("Odile", "studio code: 88Q1")], door, near="studio"
    )
    assert found[0][0] == door[2][1]
    assert SERIES in found[0][1]
