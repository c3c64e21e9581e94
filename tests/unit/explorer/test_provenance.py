"""Each sentence of a summary is traced to the leaf, and of a cell to the turn, that says it."""

from __future__ import annotations

from uuid import UUID

from memforest_core.domain.ids import FactId, NodeId
from memforest_core.service.explorer.rows import Leaf, SaidTurn
from memforest_core.service.explorer.tree_pages import sentences
from tests.harness.builders import NOON


def said(number: int, text: str) -> SaidTurn:
    return SaidTurn("s1", f"t{number}", number, "Bob", text, NOON)


def leaf(number: int, text: str, *turns: SaidTurn, fact: bool = True) -> Leaf:
    return Leaf(NodeId(UUID(int=number)), FactId(UUID(int=number)) if fact else None, text, turns)


DAVIS = leaf(1, "Bob moved to Davis in May.", said(1, "I moved to Davis in May."))
KAYAKS = leaf(2, "Bob bought three red kayaks.", said(3, "I bought three red kayaks."))


def test_a_sentence_of_a_leaf_is_word_for_word() -> None:
    (found,) = sentences("bob  bought three red kayaks.", [DAVIS, KAYAKS])

    assert (found.leaf, found.verbatim, found.turns) == (KAYAKS, True, KAYAKS.turns)


def test_a_sentence_that_a_model_wrote_names_the_leaf_with_most_of_its_words() -> None:
    found = sentences("In May, Bob moved over to Davis. He owns three red kayaks now.", [DAVIS, KAYAKS])

    assert [each.leaf for each in found] == [DAVIS, KAYAKS]
    assert [each.verbatim for each in found] == [False, False]


def test_a_sentence_that_no_leaf_says_names_none() -> None:
    (found,) = sentences("Altogether a year of many changes.", [DAVIS, KAYAKS])

    assert (found.leaf, found.turns) == (None, ())


def test_of_a_cell_the_turn_is_named_that_says_it() -> None:
    cell = leaf(3, "Bob: I love tea.\nAnn: Rain again.", said(1, "I love tea."), said(2, "Rain again."), fact=False)
    found = sentences("I love tea. Rain again.", [cell])

    assert [[turn.turn_id for turn in each.turns] for each in found] == [["t1"], ["t2"]]


def test_without_leaves_or_words_nothing_is_named() -> None:
    assert [each.leaf for each in sentences("All is well. …", [])] == [None, None]
    assert sentences("", [DAVIS]) == []
