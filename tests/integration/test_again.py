"""Cells stored verbatim are extracted again until the model behaves; memory ends as if it always had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.models.calls import Embedder
from memforest_core.settings import AcceptSettings
from tests.harness.model_answers import wants_extraction
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

TALK = ("I moved from Boston to Davis in May 2023.", "How nice.", "I bought 3 red kayaks there.", "Great.")

CANDIDATES = """SELECT c.ordinal, k.item, k.statement->>'text', k.statement->>'verbatim', o.fact_id IS NOT NULL
                  FROM memforest.candidate k JOIN memforest.cell c USING (tenant_id, cell_id)
                  LEFT JOIN memforest.occurrence o USING (tenant_id, cell_id, item) ORDER BY 1, 2"""

NUMBERED = """SELECT CAST(substring(f.text FROM 'numbered ([0-9]+)') AS int), o.turn_ordinals
                FROM memforest.fact f JOIN memforest.occurrence o USING (tenant_id, fact_id) ORDER BY 1"""
"""The number that each fact names, and the turns that say so."""


@contextmanager
def with_model(
    servers: SessionServers, directory: Path, embedder: Embedder, model: ModelServer, **groups: object
) -> Iterator[Stack]:
    llm = {"model": "openai/test-model", "api_base": model.url, "api_key": "test-key", "timeout_s": 5}
    extract = {"retry_s": 10, "retry_longest_s": 60, "repairs": 0}
    directory.mkdir()
    with stack(servers, directory, embedder=embedder, llm=llm, extract=extract, **groups) as running:
        yield running


def repeated(pipeline: Stack) -> int:
    """Let the time of all verbatim cells come, and let the reconciler see it; how many were reopened."""
    pipeline.execute("UPDATE memforest.cell SET retry_at = now() WHERE retry_at IS NOT NULL")
    return pipeline.services.reconciler.run().reopened


@pytest.fixture
def calm(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> list[tuple[object, ...]]:
    """The candidates when the model behaves."""
    with ModelServer() as model, with_model(servers, tmp_path / "calm", embedder, model) as pipeline:
        pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.drive()
        return [tuple(row) for row in pipeline.rows(CANDIDATES)]


def test_a_model_that_comes_to_its_senses_leaves_the_memory_of_a_calm_run(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, calm: list[tuple[object, ...]]
) -> None:
    """Given an answer in no schema, then the cells are facts word by word; when it answers well later, those go."""
    with ModelServer() as model, with_model(servers, tmp_path / "bad", embedder, model) as pipeline:
        model.script(Fault.WRONG_SCHEMA)
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.drive()
        assert handle.status().verbatim == 2
        assert {row[3] for row in pipeline.rows(CANDIDATES)} == {"true"}
        before = pipeline.memory.recall("bob", "How many kayaks did Bob buy?")
        assert any("kayaks" in piece.text for piece in before.evidence)

        assert repeated(pipeline) == 2
        pipeline.drive()

        assert handle.status().verbatim == 0
        assert [tuple(row) for row in pipeline.rows(CANDIDATES)] == calm
        assert pipeline.rows("SELECT count(*) FROM memforest.fact f WHERE statement->>'verbatim' = 'true'") == [(0,)]
        orphans = """SELECT count(*) FROM memforest.node n WHERE n.level = 0 AND NOT EXISTS (
                       SELECT 1 FROM memforest.fact f WHERE f.fact_id = n.payload_id UNION ALL
                       SELECT 1 FROM memforest.cell c WHERE c.cell_id = n.payload_id)"""
        assert pipeline.rows(orphans) == [(0,)]
        assert pipeline.rows("SELECT count(*) FROM memforest.cell WHERE retry_at IS NOT NULL OR NOT placed") == [(0,)]


LAMPS = [f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(70)]
"""More turns than one window has, and fewer characters."""
KETTLES = [
    f"I paid {n} dollars for a kettle numbered {n}, {'which stands on a very long shelf, ' * 5}."
    for n in range(70, 100)
]
"""More characters than one window has, and fewer turns."""


WINDOWS = """SELECT s.external_id, count(*) AS cells, sum(c.last_turn - c.first_turn + 1) AS turns,
                    sum(length(c.text)) AS chars
               FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id)
              GROUP BY s.external_id, c.window_ordinal ORDER BY s.external_id DESC, c.window_ordinal"""


@pytest.mark.parametrize("fault", [None, Fault.TRUNCATED])
def test_windows_as_they_come_lose_no_fact(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, fault: Fault | None
) -> None:
    """Given the windows of the settings' own size, when one answer is cut off, then the turns from its last item on are
    read by another call, and every turn has its fact as if nothing had happened."""
    own = AcceptSettings().model_dump()
    with ModelServer() as model, with_model(servers, tmp_path / "own", embedder, model, accept=own) as pipeline:
        model.script(fault)
        lamps = pipeline.memory.client.enqueue("bob", "lamps", said(*LAMPS))
        kettles = pipeline.memory.client.enqueue("bob", "kettles", said(*KETTLES, start=1_700_100_000))
        windows = pipeline.rows(WINDOWS)
        pipeline.drive()

        assert [(row.external_id, row.turns) for row in windows[:2]] == [("lamps", 64), ("lamps", 6)]
        assert [row.external_id for row in windows[2:]] == ["kettles", "kettles"]
        assert 4_000 < windows[2].chars <= 1_200 * CHARS_PER_TOKEN
        more = 1 if fault else 0
        assert len([call for call in model.requests if wants_extraction(call.body)]) == len(windows) + more
        for status in (lamps.status(), kettles.status()):
            assert (status.placed, status.ok + status.repaired, status.verbatim) == (status.cells, status.cells, 0)
        reported = [(number, [turn]) for number, turn in enumerate([*range(len(LAMPS)), *range(len(KETTLES))])]
        assert [tuple(row) for row in pipeline.rows(NUMBERED)] == reported


def test_a_model_that_goes_on_misbehaving_changes_nothing_and_is_called_less_and_less(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with ModelServer() as model, with_model(servers, tmp_path / "bad", embedder, model) as pipeline:
        model.script(*[Fault.MALFORMED] * 3)
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.drive()
        first = [tuple(row) for row in pipeline.rows(CANDIDATES)]

        for agains in (2, 3):
            assert repeated(pipeline) == 2
            pipeline.drive()
            assert [tuple(row) for row in pipeline.rows(CANDIDATES)] == first
            assert handle.status().verbatim == 2
            assert pipeline.rows("SELECT DISTINCT agains, placed, state FROM memforest.cell") == [
                (agains, True, "done")
            ]
        longer = "SELECT bool_and(retry_at > now() + interval '20 s') FROM memforest.cell"
        assert pipeline.rows(longer) == [(True,)]


def test_verbatim_cells_wait_for_an_unavailable_model(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given verbatim cells and a provider that is down when they are tried again, then they wait for it."""
    with ModelServer() as model, with_model(servers, tmp_path / "bad", embedder, model) as pipeline:
        model.script(Fault.EMPTY, Fault.SERVER_ERROR)
        handle = pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.drive()
        assert repeated(pipeline) == 2
        pipeline.runtime.extract()
        assert pipeline.rows("SELECT DISTINCT state, error_code, attempts FROM memforest.cell") == [
            ("ready", "model_unavailable", 0)
        ]
        assert handle.status().placed == 2

        pipeline.execute("UPDATE memforest.cell SET available_at = now()")
        pipeline.drive()
        assert handle.status().verbatim == 0


def test_an_answer_once_paid_for_is_never_paid_for_again(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given an extracted session, when its cells are opened once more for a replay, then no call is made."""
    with ModelServer() as model, with_model(servers, tmp_path / "paid", embedder, model) as pipeline:
        pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.drive()
        before = [tuple(row) for row in pipeline.rows(CANDIDATES)]
        calls = pipeline.rows("SELECT count(*) FROM memforest.llm_call WHERE step = 'extract'")

        pipeline.memory.client.enqueue("bob", "s1", said(*TALK))
        pipeline.execute("UPDATE memforest.cell SET state = 'ready'")
        pipeline.drive()

        assert pipeline.rows("SELECT count(*) FROM memforest.llm_call WHERE step = 'extract'") == calls
        assert [tuple(row) for row in pipeline.rows(CANDIDATES)] == before
