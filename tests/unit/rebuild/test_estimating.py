"""What summaries cost, from the texts of a tree's leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from memforest_core.domain.ids import TreeId, TreeKind
from memforest_core.ingest.refresh.summarizer import input_hash
from memforest_core.lifecycle.rebuild.planner import Expected, SummaryWork, estimate
from memforest_core.lifecycle.rebuild.records import PlannedTree

EXPECTED = Expected("some/model", budget=100, usual=90)


def work(*texts: str, k: int = 3, paid: dict[bytes, str] | None = None) -> SummaryWork:
    def made(keys: Sequence[bytes]) -> dict[bytes, str]:
        return {key: text for key, text in (paid or {}).items() if key in keys}

    return estimate(PlannedTree(TreeId(UUID(int=1)), TreeKind.SCENE, "pets", texts), k, EXPECTED, made)


def test_short_texts_are_joined_without_a_model() -> None:
    """Given leaves that fit a summary together, when a tree is planned, then it costs nothing."""
    assert work("a" * 30, "b" * 30, "c" * 30) == SummaryWork(written=1)


def test_a_single_child_passes_its_text_through() -> None:
    """Given one long leaf, or others without a text, when a tree is planned, then nothing has to be written for it."""
    assert work("a" * 500) == SummaryWork(written=1)
    assert work("a" * 500, "", "") == SummaryWork(written=1)


def test_each_node_above_long_texts_is_one_call() -> None:
    """Given nine long leaves under nodes of three, when a tree is planned, then three nodes and their root are written,
    by calls that hold the prompt and the children."""
    found = work(*["a" * 80] * 9)
    assert (found.written, found.reused, found.calls) == (4, 0, 4)
    assert found.prompt_chars > 4 * 3 * 80


def test_branching_decides_how_many_nodes_there_are() -> None:
    """Given nine long leaves, when nodes hold nine, then there is one summary."""
    assert work(*["a" * 80] * 9, k=9).calls == 1


def test_what_was_paid_for_is_used_again_up_to_what_is_new() -> None:
    """Given a summary that was made before, when the tree is planned, then the node above it is still a call if another
    child of it is new."""
    key = input_hash("some/model", 100, ["a" * 80] * 3)
    known = work(*["a" * 80] * 3, *["b" * 80] * 3, paid={key: "s" * 60})
    assert (known.written, known.reused, known.calls) == (3, 1, 2)
    above = input_hash("some/model", 100, ["s" * 60, "s" * 60])
    assert work(*["a" * 80] * 6, paid={key: "s" * 60, above: "top"}) == SummaryWork(written=3, reused=3)
