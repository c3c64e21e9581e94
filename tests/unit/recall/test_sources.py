"""External sources: what their points become, on which scale, and what a recall says when they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from memforest_core.domain.evidence import EvidenceKind, RecallResult
from memforest_core.errors import IndexUnavailable, InvalidInput, InvalidSettings
from memforest_core.index.vector_index import DenseVector, PointKind, SourceHit, SourceMismatch
from memforest_core.recall.service import RecallService
from memforest_core.recall.sources import MOST, WIDER, Sources
from memforest_core.settings import RecallSettings, SourceSettings
from tests.unit.recall.memory import TENANT, Forest, OneVector, ScriptedIndex, named

MAPPED = SourceSettings(
    url="http://localhost:1",
    collection="notes",
    text="body.text",
    time="at",
    metadata=("topic", "deep"),
    owner="user",
    limit=3,
    max_chars=30,
)


@dataclass
class Collection:
    """A collection with a scripted answer."""

    answer: Callable[[], list[SourceHit]]
    requested: list[tuple[str, list[str], int]] = field(default_factory=list)
    closed: bool = False

    def search(self, vector: DenseVector, tenant: str, owners: Sequence[str], limit: int) -> list[SourceHit]:
        self.requested.append((tenant, list(owners), limit))
        return self.answer()

    def close(self) -> None:
        self.closed = True


def hit(id: str, text: object = "Davis is in Yolo County.", score: float = 0.6, **payload: object) -> SourceHit:
    return SourceHit(id, score, {"body": {"text": text}, **payload})


class World:
    """A forest with a turn about a move, and a source called notes."""

    def __init__(self, *hits: SourceHit, fails: Exception | None = None, **settings: object) -> None:
        def answer() -> list[SourceHit]:
            if fails is not None:
                raise fails
            return list(hits)

        self.collection = Collection(answer)
        self.forest, self.index, self.embedder = Forest(), ScriptedIndex(), OneVector()
        self.forest.session("move", ("Bob", "I moved to Davis in May."), ("Ann", "How nice!"))
        self.index.points = {named("move/0"): (PointKind.CELL, 4.0, 0.6)}
        known = {"notes": MAPPED.model_copy(update=settings)}
        self.sources = Sources(known, 2, lambda *_: self.collection)  # type: ignore[arg-type,return-value]
        self.service = RecallService(
            self.forest,  # type: ignore[arg-type]
            self.index,  # type: ignore[arg-type]
            self.embedder,
            RecallSettings(),
            sources=self.sources,
        )

    def recall(self, owner: str = "alice", question: str = "Where is Davis?", **options: object) -> RecallResult:
        options.setdefault("sources", ["notes"])
        return self.service.recall(TENANT, owner, question, **options)  # type: ignore[arg-type]


def external(found: RecallResult) -> list[str]:
    return [piece.point_id for piece in found.evidence if piece.source]


def test_a_point_is_evidence_that_names_its_source() -> None:
    at = "2024-05-01T10:00:00Z"
    world = World(hit("7", "Davis\x00 is in Yolo.", at=at, topic="maps", other=1, user="alice"))

    found = world.recall()

    [piece] = [piece for piece in found.evidence if piece.source]
    assert (piece.text, piece.source, piece.point_id) == ("Davis is in Yolo.", "notes", "7")
    assert (piece.kind, piece.session_id, piece.turn_ids, piece.fact_ids) == (EvidenceKind.EXTERNAL, "", (), ())
    assert (piece.time_label, piece.metadata, piece.owner) == ("Wednesday 1 May 2024", {"topic": "maps"}, "alice")
    assert piece.score == pytest.approx(sum(piece.signals.values()))
    assert {piece.owner for piece in found.evidence if not piece.source} == {"alice"}
    assert found.degraded == ()
    assert world.collection.requested == [(TENANT, ["alice"], 3)]
    assert "[notes, Wednesday 1 May 2024]" in found.text()


def test_a_source_is_on_the_scale_of_the_forest() -> None:
    """Given points nearer and farther than the turn, then the nearer comes before the farther, and what both lists hold
    is scaled by the best of both."""
    found = World(hit("near", score=0.9), hit("far", "Boats.", score=0.1)).recall()
    order = [piece.point_id or piece.session_id for piece in found.evidence]
    assert order.index("near") < order.index("far")
    without = World().recall()
    turn = next(piece for piece in found.evidence if piece.session_id == "move")
    alone = next(piece for piece in without.evidence if piece.session_id == "move")
    assert turn.signals["cell"] < alone.signals["cell"]


def test_nothing_changes_for_the_forest_when_a_source_has_nothing() -> None:
    world = World()
    assert world.recall().evidence == world.recall(sources=None).evidence
    assert len(world.collection.requested) == 1


def test_texts_are_cleaned_and_cut_and_what_can_not_be_used_is_reported() -> None:
    deep: object = "x"
    for _ in range(70):
        deep = [deep]
    world = World(
        hit("long", "words " * 50),
        hit("none", 5),
        hit("blank", " \x00 "),
        hit("when", "Another.", at="some day"),
        hit("deep", "A third.", deep=deep),
        limit=9,
    )

    found = world.recall()

    parts = {piece.point_id: piece for piece in found.evidence if piece.source}
    assert parts.keys() == {"long", "when", "deep"}
    assert len(parts["long"].text) <= 30
    assert parts["when"].time_label == "date unknown"
    assert parts["deep"].metadata == {}
    assert found.degraded == (
        "Source notes: 2 of 5 points without a text in 'body.text' were left out.",
        "Source notes: 1 of 5 points have no time in 'at' that can be read.",
        "Source notes: 1 of 5 points have metadata that are too long or too deep: they were left out.",
    )


def test_bounds_of_time_and_metadata_hold_and_more_points_are_read_for_them() -> None:
    hits = [hit(f"{day}", f"Day {day}.", at=f"2024-05-0{day}T10:00:00Z", topic=day % 2) for day in range(1, 7)]
    world = World(*hits, hit("undated", "No day."))

    assert set(external(world.recall(since="2024-05-03", until="2024-05-05"))) == {"3", "4"}
    assert set(external(world.recall(as_of="2024-05-03"))) == {"1", "2"}
    assert set(external(world.recall(metadata={"topic": 1}))) == {"1", "3", "5"}
    assert {limit for *_, limit in world.collection.requested} == {WIDER * 3}
    assert len(external(world.recall())) == 3
    assert world.collection.requested[-1][2] == 3
    assert WIDER * 200 > MOST


def test_the_same_words_come_once_and_k_counts_over_all() -> None:
    world = World(hit("1"), hit("2"), hit("3", "Other."))
    assert set(external(world.recall())) == {"1", "3"}
    assert len(world.recall(k=1).evidence) == 1


@pytest.mark.parametrize(
    ("fails", "reported"),
    [
        (IndexUnavailable("secret reason"), "Source notes was left out: it is unavailable."),
        (InvalidSettings("check the api key"), "Source notes was left out: it refuses the query."),
        (SourceMismatch("its vectors have 3 numbers"), "Source notes was left out: its vectors have 3 numbers."),
    ],
)
def test_a_source_that_fails_is_named_and_the_forest_answers(fails: Exception, reported: str) -> None:
    found = World(fails=fails).recall()
    assert [piece.session_id for piece in found.evidence][:1] == ["move"]
    assert found.degraded == (reported,)


def test_without_an_embedder_no_source_is_searched() -> None:
    world = World(hit("1"))
    world.embedder.unavailable = True
    found = world.recall()
    assert external(found) == []
    assert world.collection.requested == []
    assert any("No source was searched" in sentence for sentence in found.degraded)


def test_an_owner_without_a_memory_gets_what_the_source_has() -> None:
    found = World(hit("1")).recall(owner="nobody")
    assert external(found) == ["1"]
    assert (found.owner_known, found.owners_unknown, found.round_trips) == (False, ("nobody",), 0)


def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="no source 'wiki'; known are notes"):
        World().recall(sources=["wiki"])
