"""Recall over the real pipeline: what was said is found, explained, and found again when parts are unavailable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import pytest
import sqlalchemy as sa

from memforest_core.domain.evidence import Freshness, RecallResult
from memforest_core.domain.ids import TenantId, TreeKind
from memforest_core.errors import IndexUnavailable, InvalidInput, ModelUnavailable
from memforest_core.index.vector_index import Hit, IndexQuery
from memforest_core.models.calls import Embedded
from memforest_core.recall.rows import sql as statements
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.reads import Reader, Rows
from tests.harness.changing_index import ChangingIndex
from tests.harness.stack import Stack

MOVING = (
    ("2023-05-08T10:00:00Z", "I grew up in Boston, right by the harbour."),
    ("2023-05-08T10:01:00Z", "Last month I moved from Boston to Davis for a new job."),
    ("2023-05-08T10:02:00Z", "The new job is at a bicycle workshop downtown."),
    ("2023-05-08T10:03:00Z", "My sister Clara visited me and brought her dog Rufus."),
)
MIAMI = (
    ("2024-02-12T18:00:00Z", "I have left Davis and moved to Miami last weekend."),
    ("2024-02-12T18:01:00Z", "The apartment in Miami has a balcony with a sea view."),
    ("2024-02-12T18:02:00Z", "I started learning the violin with an old teacher."),
    ("2024-02-12T18:03:00Z", "The violin lessons are on Thursdays."),
)


def turns(*said: tuple[str, str], name: str = "Bob") -> list[dict[str, object]]:
    return [
        {"id": f"t{at}", "role": "user", "name": name, "content": text, "timestamp": when}
        for at, (when, text) in enumerate(said)
    ]


@pytest.fixture
def bob(pipeline: Stack) -> Stack:
    """Two sessions of Bob's, wholly processed."""
    pipeline.memory.ingest("bob", "moving", turns(*MOVING))
    pipeline.memory.ingest("bob", "miami", turns(*MIAMI))
    pipeline.drive()
    return pipeline


def first(result: RecallResult, n: int = 3) -> list[str]:
    return [piece.text for piece in result.evidence[:n]]


@pytest.mark.parametrize("mode", ["flat", "embedding"])
def test_every_mode_finds_what_was_said(bob: Stack, mode: str) -> None:
    result = bob.memory.recall("bob", "Which instrument is Bob learning?", mode=mode)
    assert "Bob: I started learning the violin with an old teacher." in first(result, 2)
    assert result.mode == mode
    assert result.degraded == ()


def test_postgres_is_queried_in_few_rounds(bob: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forest; what the hits need; candidates with token vectors; what is delivered."""
    bob.memory.recall("bob", "Which instrument is Bob learning?")
    sent: list[int] = []
    send = Reader._sent

    def counted(reader: Reader, statements: Sequence[tuple[str, Mapping[str, object]]]) -> list[Rows]:
        sent.append(len(statements))
        return send(reader, statements)

    monkeypatch.setattr(Reader, "_sent", counted)
    assert bob.memory.recall("bob", "Which instrument is Bob learning?").evidence
    assert (len(sent), sum(sent)) == (4, 14)


def test_evidence_says_where_when_and_why(bob: Stack) -> None:
    result = bob.memory.recall("bob", "Who visited Bob with a dog?", k=5)
    best = result.evidence[0]
    assert best.text == "Bob: My sister Clara visited me and brought her dog Rufus."
    assert (best.session_id, best.turn_ids, best.speaker) == ("moving", ("t3",), "Bob")
    assert best.time.start == datetime(2023, 5, 8, 10, 3, tzinfo=UTC)
    assert best.time_label == "Monday 8 May 2023"
    assert {"cell", "session", "speaker"} <= best.signals.keys()
    assert best.freshness is Freshness.SUMMARY
    session_path = [node for node in best.path if node.tree_kind is TreeKind.SESSION]
    assert session_path[0].level == max(node.level for node in session_path)
    assert all(node.summary for node in session_path)
    assert result.timings_ms["total"] > 0


def test_owners_do_not_see_each_other(bob: Stack) -> None:
    bob.memory.ingest("eve", "s", turns(("2024-01-01T00:00:00Z", "I play the violin too."), name="Eve"))
    bob.drive()
    found = bob.memory.recall("eve", "Who plays the violin?", k=50)
    assert {piece.speaker for piece in found.evidence} == {"Eve"}


def test_tenants_do_not_see_each_other(bob: Stack) -> None:
    found = bob.services.recall.recall(TenantId("other"), "bob", "Where does Bob live?")
    assert found.evidence == ()
    assert not found.owner_known


def test_raw_text_is_found_before_anything_was_processed(pipeline: Stack) -> None:
    pipeline.memory.ingest("bob", "miami", turns(*MIAMI))
    best = pipeline.memory.recall("bob", "What is Bob learning: the violin?").evidence[0]
    assert "violin" in best.text
    assert best.freshness is Freshness.RAW
    assert best.path == ()


def test_a_part_of_a_long_turn_is_delivered_alone(pipeline: Stack) -> None:
    filler = "Nothing of note happened on the way home that day. " * 400
    long = f"{filler}The lighthouse keeper gave me a brass compass. {filler}"
    pipeline.memory.ingest("bob", "long", turns(("2024-01-01T00:00:00Z", long)))
    pipeline.drive()
    best = pipeline.memory.recall("bob", "Who gave Bob a brass compass?").evidence[0]
    assert "brass compass" in best.text
    assert len(best.text) < 9_000
    assert best.kind == "cell"


def test_neighbours_come_from_the_tree_or_the_dialogue(bob: Stack) -> None:
    best = bob.memory.recall("bob", "Who left Davis for Miami?", neighbours=2).evidence[0]
    assert "Miami" in best.text
    assert best.predecessors
    moments = [piece.time.start for piece in best.predecessors if piece.time.start]
    assert moments == sorted(moments)
    assert all(moment <= datetime(2024, 2, 12, 18, 0, tzinfo=UTC) for moment in moments)


def test_the_state_before_the_one_in_the_question_is_among_the_first(bob: Stack) -> None:
    result = bob.memory.recall("bob", "Where did Bob live before moving to Miami?")
    assert any("to Davis" in text for text in first(result))


def test_the_text_fits_its_budget(bob: Stack) -> None:
    result = bob.memory.recall("bob", "Where did Bob live?", k=8)
    assert len(result.text(30)) <= 120
    assert result.text().count("[Monday 8 May 2023]") == 1


@pytest.mark.parametrize("mode", ["auto", "flat", "embedding"])
def test_an_owner_without_a_memory_yet_gets_an_empty_result_that_says_so(bob: Stack, mode: str) -> None:
    """Given somebody's first message, when a chat queries their memory, then there is nothing, and no error."""
    found = bob.memory.recall("nobody", "Where?", mode=mode)
    assert (found.evidence, found.owner_known, found.degraded) == ((), False, ())
    assert found.mode != "auto"
    assert found.text() == ""
    assert bob.memory.recall("bob", "Where?", mode=mode).owner_known


def test_a_wrong_question_of_an_owner_without_a_memory_is_refused_all_the_same(bob: Stack) -> None:
    for question, mode, code in (("", "flat", "empty_question"), ("Where?", "best", "invalid_mode")):
        with pytest.raises(InvalidInput) as refused:
            bob.memory.recall("nobody", question, mode=mode)
        assert refused.value.code == code
    with pytest.raises(InvalidInput):
        bob.memory.recall("nobody", "Where?", mode="llm")


@dataclass
class UnavailableIndex:
    """An index that can't be reached."""

    name: str = "away"

    def search(self, queries: Sequence[IndexQuery]) -> list[list[Hit]]:
        raise IndexUnavailable("away")


class UnavailableEmbedder:
    """A provider that can't be reached."""

    model = "away"
    dimension = 384

    def embed(self, texts: Sequence[str]) -> Embedded:
        raise ModelUnavailable("away")

    embed_query = embed


def test_of_a_fact_that_was_said_often_the_latest_cells_are_read(pipeline: Stack) -> None:
    """Given a fact that was said on seven days and one that was said once, when the four latest occurrences of each
    are read, then they are those of the last days; by a moment in between, those of the days before it."""
    for day in range(1, 8):
        said = turns((f"2024-05-{day:02}T10:00:00Z", "I live in Visby."))
        pipeline.memory.ingest("gil", f"day-{day}", said)
    pipeline.memory.ingest("gil", "once", turns(("2024-05-20T10:00:00Z", "The violin lessons are on Thursdays.")))
    pipeline.drive()
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        days = dict(
            connection.execute(sa.text("SELECT cell_id, extract(day FROM time_start)::int FROM memforest.cell")).all()
        )
        counted = connection.execute(sa.text("SELECT fact_id, count(*) FROM memforest.occurrence GROUP BY fact_id"))
        times = dict(counted.all())
    [often] = [fact for fact, n in times.items() if n == 7]
    [once] = [fact for fact, n in times.items() if n == 1]

    def read(until: datetime | None = None) -> dict[UUID, list[int]]:
        with RecallStore(pipeline.services.engine).recalling(pipeline.tenant) as rows:
            said = rows.one(rows.cells_of_facts([once, often], 4, until))
        return {fact: [days[cell] for one, cell in said if one == fact] for fact in (once, often)}

    assert read() == {once: [20], often: [7, 6, 5, 4]}
    assert read(datetime(2024, 5, 5, 12, tzinfo=UTC)) == {once: [], often: [5, 4, 3, 2]}
    assert read(datetime(2024, 5, 2, 12, tzinfo=UTC)) == {once: [], often: [2, 1]}


@pytest.mark.parametrize("before", [False, True])
def test_a_turn_that_is_indexed_during_a_recall_is_found_by_it(bob: Stack, before: bool) -> None:
    bob.memory.ingest("bob", "oslo", turns(("2024-03-01T00:00:00Z", "Grandmother sent me seventeen postcards.")))
    index = ChangingIndex(bob.services.index, bob.drive, before)
    service = RecallService(
        RecallStore(bob.services.engine),
        index,  # type: ignore[arg-type]
        bob.services.embedder,
        bob.settings.recall,
    )
    # Without trees: these hold what was indexed after the first search.
    found = service.recall(bob.tenant, "bob", "Who sent Bob seventeen postcards?", mode="flat").evidence
    later = bob.memory.recall("bob", "Who sent Bob seventeen postcards?", mode="flat").evidence
    assert index.changed
    assert [piece.text for piece in found[:1]] == ["Bob: Grandmother sent me seventeen postcards."]
    assert len({piece.text for piece in found}) == len(found)
    assert later[0].text == found[0].text
    if before:
        assert [piece.score for piece in later] == pytest.approx([piece.score for piece in found], abs=1e-4)


def test_without_the_index_full_text_answers(bob: Stack) -> None:
    service = RecallService(
        RecallStore(bob.services.engine),
        UnavailableIndex(),  # type: ignore[arg-type]
        bob.services.embedder,
        bob.settings.recall,
    )
    result = service.recall(bob.tenant, "bob", "Who visited Bob with Rufus & 'the' (dog) | !cat:* ?")
    assert result.evidence[0].turn_ids == ("t3",)
    assert "full text" in result.degraded[0]


def test_without_the_embedder_words_answer(bob: Stack) -> None:
    service = RecallService(
        RecallStore(bob.services.engine), bob.services.index, UnavailableEmbedder(), bob.settings.recall
    )
    result = service.recall(bob.tenant, "bob", "Who visited Bob with Rufus the dog?")
    assert result.evidence[0].turn_ids == ("t3",)
    assert "words alone" in result.degraded[0]


VOLUME = 20_000
"""Rows at which a plan that reads whole tables would show."""

FILL = (
    "INSERT INTO memforest.tenant (tenant_id) VALUES ('default') ON CONFLICT DO NOTHING",
    "INSERT INTO memforest.forest (tenant_id, forest_id, owner) VALUES ('default', :f, 'many')",
    """INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at)
       VALUES ('default', :f, :f, 's', 'UTC', now())""",
    """INSERT INTO memforest.turn (tenant_id, session_id, ordinal, external_id, role, content, occurred_at, dated,
                                    speaker_id, name)
       SELECT 'default', :f, i, 't' || i, 'user', 'word' || i, now(), true, 'p', 'p' FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
                                    last_turn, text, text_hash, time_start, time_end, state, placed)
       SELECT 'default', md5('cell' || i)::uuid, :f, :f, i, i, i, i, 'word' || i, '\\x00', now(), now(), 'done', true
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.fact (tenant_id, fact_id, forest_id, text, normalized, text_hash, mentioned_at,
                                    subject_key, attribute, statement, key_time, key_ordinal, key_item)
       SELECT 'default', md5('fact' || i)::uuid, :f, 'word' || i, 'word' || i, '\\x00', now(), 'p', '',
              '{"verbatim": false}', i, 0, 0 FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.candidate (tenant_id, cell_id, item, turn_ordinals, quote, statement, text_hash,
                                         routing_hash)
       SELECT 'default', md5('cell' || i)::uuid, 0, ARRAY[i], '', '{}', '\\x00', '\\x00'
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.occurrence (tenant_id, cell_id, item, fact_id, session_id, turn_ordinals)
       SELECT 'default', md5('cell' || i)::uuid, 0, md5('fact' || i)::uuid, :f, ARRAY[i]
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.tree (tenant_id, tree_id, forest_id, kind, scope_key, label, state, k)
       SELECT 'default', md5('tree' || i)::uuid, :f, 'entity', 'tree' || i, 'tree', 'active', 8
         FROM generate_series(1, :n / 10) i""",
    """INSERT INTO memforest.node (tenant_id, node_id, tree_id, parent_id, level, key_time, key_ordinal, key_item,
                                    key_id, leaf_count, version, clean_version, payload_id)
       SELECT 'default', md5('node' || i)::uuid, md5('tree' || (1 + i % (:n / 10)))::uuid,
              CASE WHEN i > 10 THEN md5('node' || i / 8)::uuid END, (i % 3)::smallint, i, 0, 0, '', 1, 1, 1,
              md5('fact' || i)::uuid FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.node_summary (tenant_id, node_id, text, source, model, input_hash, version, vector,
                                            vector_model, pooled, terms)
       SELECT 'default', md5('node' || i)::uuid, 'text', 'model', 'm', '\\x00', 1, '\\x00', 'm', '\\x00', '\\x00'
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.index_row (tenant_id, point_id, forest_id, kind, version, indexed_version, state)
       SELECT 'default', md5('cell' || i)::uuid, :f, 'cell', 1, CASE WHEN i < 5 THEN 0 ELSE 1 END,
              CASE WHEN i < 5 THEN 'ready' ELSE 'done' END FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.vector (tenant_id, forest_id, model, text_hash, vector)
       SELECT 'default', :f, 'all-minilm-l6-v2-int8', sha256(i::text::bytea), '' FROM generate_series(1, :n) i""",
    "ANALYZE",
)


COLD = {"TEXT_OF_CELLS", "TEXT_OF_FACTS", "LAST_SAID"}
"""They read a whole forest. Full text is searched while the index is unavailable (under row security, ``@@`` can't use
an index); the last turn is read for questions that name a time."""


def test_no_statement_of_recall_reads_a_whole_table(pipeline: Stack) -> None:
    """At a volume where it matters, under row security, with the planner's own estimates."""
    forest = UUID(int=5)
    for statement in FILL:
        pipeline.execute(statement, f=forest, n=VOLUME)
    ids = [UUID(str(row[0])) for row in pipeline.rows("SELECT fact_id FROM memforest.fact ORDER BY key_time LIMIT 200")]
    values: dict[str, object] = {
        "t": pipeline.tenant,
        "f": forest,
        "m": "all-minilm-l6-v2-int8",
        "ids": ids,
        "topics": ids[:8],
        "behind": 12,
        "keys": ["tree1", "tree2"],
        "sessions": [forest] * 200,
        "ordinals": list(range(200)),
        "n": 4,
        "chars": 10,
        "leaves": 10,
        "q": "word1 | word2",
        "signs": [],
        "near": "word",
        "until": datetime(2024, 1, 1, tzinfo=UTC),
        "kinds": ["entity", "scene"],
        "metadata": "{}",
        "names": ["s1", "s2"],
        "channels": ["work", "home"],
        "session": "s1",
        "owner": "bob",
    }
    hot = {
        name: getattr(statements, name)
        for name in dir(statements)
        if isinstance(getattr(statements, name), sa.TextClause) and name not in COLD
    }
    assert len(hot) >= 14
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        for name, statement in hot.items():
            plan = "\n".join(connection.scalars(sa.text(f"EXPLAIN {statement.text}"), values))
            large = plan
            for small in (
                "session",
                "collection",
                "maintenance",
                "pg_database",
                "forest",
                "speaker",
            ):  # a row or none of each here
                large = large.replace(f"Seq Scan on {small}", "")
            assert "Seq Scan" not in large, f"{name}:\n{plan}"
