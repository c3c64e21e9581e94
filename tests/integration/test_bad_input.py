"""Bad input gets one sentence that says what to change, a stable code, and leaves nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from memforest_core.adapters.postgres.collections import claim_collection
from memforest_core.client import MemForestClient
from memforest_core.errors import CallerError, InvalidSettings, MemForestError, NotFound, StoreUnavailable
from memforest_core.settings import load_settings
from tests.integration.test_accept import counts
from tests.integration.test_pipeline import said
from tests.support.servers import SessionServers
from tests.support.stack import Stack, stack

GOOD = {"role": "user", "content": "Hi", "timestamp": "2024-01-01T00:00:00Z"}

BAD_SESSIONS: list[tuple[str, object, str]] = [
    ("empty session", [], "empty_session"),
    ("not a list", "hello", "invalid_turns"),
    ("not an object", ["hello"], "invalid_turns"),
    ("no content", [{"role": "user"}], "missing_content"),
    ("blank content", [{"role": "user", "content": "  "}], "missing_content"),
    ("unknown role", [{**GOOD, "role": "alien"}], "unknown_role"),
    ("unknown field", [{**GOOD, "text": "x"}], "unknown_field"),
    ("impossible day", [{**GOOD, "timestamp": "2024-02-30T00:00:00Z"}], "invalid_timestamp"),
    ("words for a time", [{**GOOD, "timestamp": "tomorrow"}], "invalid_timestamp"),
    ("a year out of reach", [{**GOOD, "timestamp": 1e18}], "invalid_timestamp"),
    ("not a number", [{**GOOD, "timestamp": float("nan")}], "invalid_timestamp"),
    ("a megabyte", [{**GOOD, "content": "x" * 1_048_576}], "turn_too_long"),
    ("20,001 turns", [GOOD] * 20_001, "too_many_turns"),
    ("NUL bytes", [{**GOOD, "content": "a\x00b"}], "nul_character"),
    ("lone surrogates", [{**GOOD, "content": "a\ud800b"}], "invalid_unicode"),
    ("duplicate ids", [{**GOOD, "id": "a"}, {**GOOD, "id": "a"}], "duplicate_turn_id"),
    ("metadata that is no object", [{**GOOD, "metadata": 3}], "invalid_metadata"),
    ("an empty speaker", [{**GOOD, "speaker_id": ""}], "invalid_name"),
]


def assert_one_helpful_sentence(error: MemForestError) -> None:
    assert error.code
    assert "\n" not in error.message
    assert len(error.message) < 300
    assert error.message.endswith((".", "?"))


@pytest.mark.parametrize(("what", "turns", "code"), BAD_SESSIONS, ids=[row[0] for row in BAD_SESSIONS])
def test_a_bad_session_is_refused_whole(pipeline: Stack, what: str, turns: object, code: str) -> None:
    good_first = [GOOD, *turns] if isinstance(turns, list) and turns and what != "20,001 turns" else turns
    for sent in (turns, good_first):
        with pytest.raises(CallerError) as caught:
            pipeline.memory.ingest("bob", "s1", sent)  # type: ignore[arg-type]
        assert caught.value.code == code
        assert_one_helpful_sentence(caught.value)
    assert set(counts(pipeline).values()) == {0}


@pytest.mark.parametrize(("owner", "session"), [("", "s1"), ("bob", ""), ("b\x00b", "s1"), ("b" * 600, "s1")])
def test_bad_names_are_refused(pipeline: Stack, owner: str, session: str) -> None:
    with pytest.raises(CallerError) as caught:
        pipeline.memory.ingest(owner, session, [GOOD])
    assert_one_helpful_sentence(caught.value)


def test_an_unknown_owner_session_or_stage_is_named(pipeline: Stack) -> None:
    for call in (
        lambda: pipeline.memory.status("nobody", "s1"),
        lambda: pipeline.memory.flush("nobody"),
        lambda: pipeline.memory.recall("nobody", "Where?"),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert_one_helpful_sentence(caught.value)
    with pytest.raises(CallerError, match="none, raw, facts or summaries"):
        pipeline.memory.ingest("bob", "s1", [GOOD], wait="forever")
    assert set(counts(pipeline).values()) == {0}


@pytest.mark.parametrize(("question", "k"), [("", 5), ("   ", 5), ("Where?", 0), ("Where?", -1)])
def test_a_bad_question_is_refused(pipeline: Stack, question: str, k: int) -> None:
    pipeline.memory.ingest("bob", "s1", [GOOD])
    with pytest.raises(CallerError) as caught:
        pipeline.memory.recall("bob", question, k=k)
    assert_one_helpful_sentence(caught.value)


def test_an_unreachable_postgres_is_named() -> None:
    settings = load_settings(database={"url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    with MemForestClient(settings) as client, pytest.raises(StoreUnavailable) as caught:
        client.enqueue("bob", "s1", [GOOD])
    assert "MEMFOREST_DATABASE__URL" in caught.value.message
    assert_one_helpful_sentence(caught.value)


def test_an_unreachable_index_delays_indexing_and_recall_says_so(servers: SessionServers, tmp_path: Path) -> None:
    from memforest_core.adapters.qdrant.server import QdrantServerIndex

    with stack(servers, tmp_path) as pipeline:
        embedder = pipeline.services.embedder
        away = QdrantServerIndex.at("http://127.0.0.1:1", None, embedder.model, embedder.dimension, 1.0)
        pipeline.services.index.close()
        pipeline.services.index = away
        pipeline.memory.ingest("bob", "s1", said("I live in Davis.", "I work at the lab."))
        for _ in range(3):
            pipeline.runtime.extract()
            pipeline.runtime.reduce()
        assert pipeline.memory.status("bob", "s1").placed == 1
        result = pipeline.memory.recall("bob", "Where does Bob live? Davis?")
        assert any("Davis" in evidence.text for evidence in result.evidence)
        assert result.degraded


def test_another_embedding_model_is_refused_at_start(pipeline: Stack) -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_EMBEDDING__MODEL") as caught:
        claim_collection(pipeline.services.engine, "memforest-other-64", "other", 64)
    assert_one_helpful_sentence(caught.value)


def test_a_missing_model_key_waits_for_a_person_and_says_what_to_set(servers: SessionServers, tmp_path: Path) -> None:
    """Given a model without its key, when a window is read, then it waits, unblamed, with the sentence on its row."""
    with stack(servers, tmp_path, llm={"model": "openai/gpt-4o-mini"}) as pipeline:
        pipeline.memory.ingest("bob", "s1", [GOOD])
        pipeline.runtime.extract()
        row = pipeline.rows("SELECT state, attempts, error_code, error_text FROM memforest.cell")[0]
        assert tuple(row)[:3] == ("ready", 0, "model_auth_failed")
        assert "MEMFOREST_LLM__API_KEY" in str(row[3])


def test_bad_settings_name_their_variable() -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_RECALL__K"):
        load_settings(recall={"k": 0})
    with pytest.raises(InvalidSettings, match="MEMFOREST_INDEX__PATH"):
        open_services_without_path()


def open_services_without_path() -> None:
    from memforest_core.bootstrap.models import open_embedder
    from memforest_core.bootstrap.service import open_index

    settings = load_settings(index={"kind": "qdrant_edge"})
    open_index(settings, open_embedder(settings.embedding))
