"""Browsing by a model over HTTP: how many calls, how many at once, and what each fault costs; planning, rewriting."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.models.accounting import StepSettings
from memforest_core.models.calls import Embedder, Step
from memforest_core.models.litellm_chat import LitellmChat
from memforest_core.recall.browse import Browsed, LlmRanker, browse
from memforest_core.recall.plan import LAST_TURNS, SUMMARY_CHARS, Planner, PlanType, QuestionType
from memforest_core.recall.records import TreeChild, TreeRoot
from memforest_core.recall.rows.recall_rows import RecallRows, RecallStore
from tests.harness.model_answers import last_user_text
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

QUESTION = "Which lamp did Bob carry to the lighthouse?"
REQUESTED = datetime(2024, 6, 1, 12, 0, tzinfo=UTC)
LATENCY_S = 0.3
TURNS = 36
WIDE = 100
CHARS = 800

Document = dict[str, Any]


def order(numbers: Sequence[int]) -> str:
    return json.dumps({"order": list(numbers), "none_relevant": not numbers})


def every_child(body: Mapping[str, Any]) -> str:
    return order([child["number"] for child in json.loads(last_user_text(body))["children"]])


def documents(server: ModelServer) -> list[Document]:
    return [json.loads(last_user_text(call.body)) for call in server.requests]


class Walker:
    """Browses the trees of Bob's forest with a model behind HTTP."""

    def __init__(self, running: Stack) -> None:
        self.stack = running
        ((self.forest,),) = [tuple(row) for row in running.rows("SELECT forest_id FROM memforest.forest")]

    def reading(self) -> AbstractContextManager[RecallRows]:
        return RecallStore(self.stack.services.engine).recalling(self.stack.tenant)

    def roots(self, kind: str) -> list[UUID]:
        rows = self.stack.rows(
            "SELECT root_id FROM memforest.tree WHERE kind = :k AND root_id IS NOT NULL ORDER BY scope_key", k=kind
        )
        return [UUID(str(row[0])) for row in rows]

    def children(self, node: UUID) -> list[TreeChild]:
        with self.reading() as rows:
            return rows.one(rows.children([node], CHARS))

    def begun(self, roots: Iterable[UUID]) -> list[TreeRoot]:
        with self.reading() as rows:
            return rows.one(rows.tree_roots(list(roots), SUMMARY_CHARS))

    def levels(self, root: UUID) -> list[int]:
        """How many nodes of each level have something to rank, from the root down."""
        counts, level = [], [root]
        while level:
            below = [self.children(node) for node in level]
            counts.append(sum(len(children) > 1 for children in below))
            level = [child.id for children in below for child in children if child.payload_id is None]
        return counts

    def browse(
        self, server: ModelServer, questions: Mapping[UUID, str], *, calls: int = 4, most: int = 16, beam: int = WIDE
    ) -> Browsed:
        ranker = LlmRanker(chat(server), REQUESTED, calls=calls, children_per_call=most)
        return browse(self.reading, self.begun(questions), beam, ranker, questions)


def chat(server: ModelServer, timeout_s: float = 2.0) -> LitellmChat:
    settings = StepSettings("openai/test-model", server.url, "key", timeout_s=timeout_s)
    return LitellmChat({Step.BROWSE: settings, Step.PLAN: settings})


@pytest.fixture(scope="module")
def bob(servers: SessionServers, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walker]:
    """One session of Bob's of 18 cells, wholly processed: its tree has three levels above the leaves.

    Nothing here writes, so all tests read the same.
    """
    said = [
        {
            "id": f"t{at}",
            "role": "user" if at % 2 == 0 else "assistant",
            "name": "Bob" if at % 2 == 0 else "Ann",
            "content": f"Clara took lamp number {at} to room {at * 7}." if at % 2 == 0 else f"Noted as entry {at}.",
            "timestamp": f"2024-05-01T10:{at:02d}:00Z",
        }
        for at in range(TURNS)
    ]
    with stack(servers, tmp_path_factory.mktemp("bob"), embedder=embedder) as running:
        running.memory.ingest("bob", "lamps", said)
        running.drive()
        yield Walker(running)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=every_child, retry_after_s=0.1) as running:
        yield running


class TestCalls:
    def test_one_for_each_node_that_has_something_to_rank(self, bob: Walker, server: ModelServer) -> None:
        (root,) = bob.roots("session")
        levels = bob.levels(root)
        assert len(levels) >= 3
        browsed = bob.browse(server, {root: QUESTION})
        assert len(server.requests) == sum(levels)
        assert (len(browsed.cells), browsed.degraded) == (TURNS // 2, [])
        assert browsed.positions.keys() == browsed.cells

    def test_a_level_side_by_side_within_the_bound_and_levels_one_after_another(
        self, bob: Walker, server: ModelServer
    ) -> None:
        """Given slow calls and three at once, then three are under way together, and no level waits for a fourth."""
        server.latency_s = LATENCY_S
        (root,) = bob.roots("session")
        levels = bob.levels(root)
        assert max(levels) > 3
        bob.browse(server, {root: QUESTION}, calls=3)
        assert server.peak == 3
        spans = sorted((call.started, call.ended or 0.0) for call in server.requests)
        for above, below in zip(_cut(spans, levels), _cut(spans, levels)[1:], strict=False):
            assert max(ended for _, ended in above) <= min(started for started, _ in below)

    def test_one_at_once_is_one_after_another(self, bob: Walker, server: ModelServer) -> None:
        server.latency_s = 0.02
        (root,) = bob.roots("session")
        bob.browse(server, {root: QUESTION}, calls=1)
        assert server.peak == 1

    def test_many_children_take_several_calls_for_one_node(self, bob: Walker, server: ModelServer) -> None:
        (root,) = bob.roots("session")
        browsed = bob.browse(server, {root: QUESTION}, most=2)
        shown = [len(document["children"]) for document in documents(server)]
        assert max(shown) == 2
        assert len(shown) > sum(bob.levels(root))
        assert len(browsed.cells) == TURNS // 2

    def test_the_model_sees_summaries_then_what_was_said_with_its_days(self, bob: Walker, server: ModelServer) -> None:
        (root,) = bob.roots("session")
        bob.browse(server, {root: QUESTION}, calls=1)
        first, last = documents(server)[0], documents(server)[-1]
        assert (first["question"], first["tree"], first["asked_at"]) == (QUESTION, "lamps", "2024-06-01T12:00+00:00")
        assert all(child["text"] for child in first["children"])
        assert {child["days"] for child in first["children"]} == {"2024-05-01"}
        assert any(f"lamp number {TURNS - 2} to room" in child["text"] for child in last["children"])

    def test_the_order_is_the_models(self, bob: Walker, server: ModelServer) -> None:
        """Given a model that wants the last child of every node, then the very last cell is all that is left."""
        server.answer = lambda body: order([len(json.loads(last_user_text(body))["children"])])
        (root,) = bob.roots("session")
        node = root
        while (below := bob.children(node)[-1]).payload_id is None:
            node = below.id
        assert bob.browse(server, {root: QUESTION}, beam=10).cells == {below.payload_id}


def _cut(spans: Sequence[tuple[float, float]], sizes: Sequence[int]) -> list[Sequence[tuple[float, float]]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(spans[at : at + size])
        at += size
    return [part for part in parts if part]


FAULTS = [
    (Fault.RATE_LIMIT, "the model's rate limit was reached"),
    (Fault.HANG, "the model was unavailable or too slow"),
    (Fault.WRONG_SCHEMA, "the answer was of no use"),
]


class TestFaults:
    @pytest.mark.parametrize(("fault", "reason"), FAULTS)
    def test_cost_the_node_that_they_met_and_no_other(
        self, bob: Walker, server: ModelServer, fault: Fault, reason: str
    ) -> None:
        """Given a fault at the first node below the root, then that node's children are not followed, and of every
        other node only the first child, as the model says."""
        server.answer = _first_child_below_the_root()
        server.script(None, fault)
        (root,) = bob.roots("session")
        failed, *others = bob.children(root)
        assert failed.payload_id is None
        browsed = bob.browse(server, {root: QUESTION}, calls=1)
        assert browsed.cells == {_first_leaf(bob, node) for node in others}
        assert len(browsed.degraded) == 1
        assert browsed.degraded[0].startswith("The children of 1 of ")
        assert browsed.degraded[0].endswith(f" tree nodes were not followed (1: {reason}).")


def _first_child_below_the_root() -> Callable[[Mapping[str, Any]], str]:
    """The first call chooses all children, every other the first."""
    lock, requested = threading.Lock(), iter([every_child])

    def answer(body: Mapping[str, Any]) -> str:
        with lock:
            first = next(requested, None)
        return first(body) if first is not None else order([1])

    return answer


def _first_leaf(bob: Walker, node: TreeChild) -> UUID:
    while node.payload_id is None:
        node = bob.children(node.id)[0]
    return node.payload_id


class TestPlanning:
    def test_trees_are_read_with_their_summaries_in_the_order_of_their_roots(self, bob: Walker) -> None:
        roots = [*bob.roots("session"), UUID(int=4), *bob.roots("scene"), *bob.roots("entity")]
        with bob.reading() as rows:
            found = rows.one(rows.tree_roots(roots, 20))
        assert [node.id for node in found] == [root for root in roots if root != UUID(int=4)]
        assert found[0].label == "lamps"
        assert 0 < len(found[0].text or "") <= 20
        assert found[0].time_start is not None

    def test_one_call_gives_trees_their_questions_and_the_browse_uses_them(
        self, bob: Walker, server: ModelServer
    ) -> None:
        def plans(body: Mapping[str, Any]) -> str:
            trees = json.loads(last_user_text(body))["trees"]
            queries = [{"tree": t["number"], "ask": "Which room?"} for t in trees if t["kind"] == "session"]
            anchors = {"plan": "anchors", "anchor_a": "lamp 2 moves", "anchor_b": "lamp 8 moves"}
            return json.dumps({"question_type": "temporal", "trees": queries} | anchors)

        server.answer = plans
        roots = [*bob.roots("scene"), *bob.roots("session")]
        with bob.reading() as rows:
            trees = rows.one(rows.tree_roots(roots, SUMMARY_CHARS))
        planner = Planner(REQUESTED, lambda: chat(server))
        planner.plan(QUESTION, trees)
        [plan] = planner.plans
        assert len(server.requests) == 1
        (document,) = documents(server)
        assert [tree["kind"] for tree in document["trees"]] == [tree.kind.value for tree in trees]
        assert document["trees"][-1]["label"] == "lamps"
        assert document["trees"][-1]["summary"]
        assert (plan.type, plan.question_type) == (PlanType.ANCHORS, QuestionType.TEMPORAL)
        assert plan.questions[roots[-1]] == "Which room?"

        server.answer, before = every_child, len(server.requests)
        bob.browse(server, plan.questions)
        requested = {document["tree"]: document["question"] for document in documents(server)[before:]}
        assert requested.pop("lamps") == "Which room?"
        assert requested
        assert set(requested.values()) == {QUESTION}


class TestRewriting:
    def test_a_follow_up_is_completed_from_the_sessions_last_turns(self, bob: Walker, server: ModelServer) -> None:
        server.answer = lambda body: json.dumps({"question": "Which room did lamp 34 go to?"})
        with bob.reading() as rows:
            turns = rows.last_turns(ForestId(bob.forest), "lamps", LAST_TURNS)
        planner = Planner(REQUESTED, lambda: chat(server))
        assert planner.completed("Where did it go?", turns) == "Which room did lamp 34 go to?"
        (document,) = documents(server)
        assert [turn["text"] for turn in document["turns"][-2:]] == [
            "Clara took lamp number 34 to room 238.",
            "Noted as entry 35.",
        ]
        assert [turn["speaker"] for turn in document["turns"]] == ["Bob", "Ann"] * 3


class TestReads:
    def test_texts_are_the_beginnings_of_cells_and_facts(self, bob: Walker) -> None:
        rows = bob.stack.rows(
            "SELECT cell_id, text FROM memforest.cell UNION ALL SELECT fact_id, text FROM memforest.fact"
        )
        whole = {UUID(str(row[0])): str(row[1]) for row in rows}
        with bob.reading() as reads:
            found = reads.one(reads.texts([*whole, UUID(int=5)], 12))
        assert found == {id_: text[:12] for id_, text in whole.items()}

    def test_last_turns_are_in_order_and_of_that_session_only(self, bob: Walker) -> None:
        forest = ForestId(bob.forest)
        with bob.reading() as rows:
            last = rows.last_turns(forest, "lamps", 2)
            assert [(turn.name, turn.text) for turn in last] == [
                ("Bob", "Clara took lamp number 34 to room 238."),
                ("Ann", "Noted as entry 35."),
            ]
            assert last[0].occurred_at == datetime(2024, 5, 1, 10, 34, tzinfo=UTC)
            assert len(rows.last_turns(forest, "lamps", 1_000)) == TURNS
            assert rows.last_turns(forest, "other", 2) == []
            assert rows.last_turns(ForestId(UUID(int=9)), "lamps", 2) == []

    def test_other_tenants_read_nothing(self, bob: Walker) -> None:
        ids = [UUID(str(row[0])) for row in bob.stack.rows("SELECT cell_id FROM memforest.cell")]
        store = RecallStore(bob.stack.services.engine)
        with store.recalling(TenantId("other")) as rows:
            assert rows.one(rows.texts(ids, 10)) == {}
            assert rows.one(rows.tree_roots(bob.roots("session"), SUMMARY_CHARS)) == []
            assert rows.last_turns(ForestId(bob.forest), "lamps", 2) == []
