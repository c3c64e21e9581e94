"""Accepting sessions on real Postgres: whole or not at all, free when repeated, inside the app's own transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session as OrmSession

from memforest_core.errors import SessionConflict
from tests.integration.test_pipeline import said
from tests.support.servers import SessionServers
from tests.support.stack import Stack, stack

FOUR = said("I live in Davis.", "I work at the lab.", "I bought a red bike.", "I adopted a cat.")


def counts(pipeline: Stack) -> dict[str, int]:
    """Rows of every table that accepting writes."""
    tables = ("forest", "session", "speaker", "turn", "cell", "index_row")
    return {table: int(pipeline.rows(f"SELECT count(*) FROM memforest.{table}")[0][0]) for table in tables}  # type: ignore[call-overload]


def test_a_session_is_stored_with_its_turns_cells_and_windows(pipeline: Stack) -> None:
    handle = pipeline.memory.ingest("bob", "s1", [*FOUR, *said("Six.", start=1_700_000_600)])
    assert counts(pipeline) == {"forest": 1, "session": 1, "speaker": 1, "turn": 5, "cell": 3, "index_row": 3}
    windows = pipeline.rows("SELECT ordinal, window_ordinal, state FROM memforest.cell ORDER BY ordinal")
    assert [tuple(row) for row in windows] == [(0, 0, "ready"), (1, 0, "ready"), (2, 2, "ready")]
    assert (handle.accepted.new_turns, handle.accepted.new_windows) == (5, 2)
    assert handle.status().stage == "accepted"


def test_what_a_turn_carries_comes_back(pipeline: Stack) -> None:
    turn = {
        "id": "m-1",
        "role": "user",
        "content": "Hi",
        "timestamp": "2024-05-01T10:00:00+02:00",
        "metadata": {"a": [1]},
    }
    pipeline.memory.ingest("bob", "s1", [turn])
    row = pipeline.rows("SELECT external_id, metadata, occurred_at, dated, speaker_id FROM memforest.turn")[0]
    assert (row[0], row[1], row[3], row[4]) == ("m-1", {"a": [1]}, True, "bob")
    assert row[2].isoformat() == "2024-05-01T08:00:00+00:00"  # type: ignore[attr-defined]


def test_sending_again_is_free_and_gives_the_same_handle(pipeline: Stack) -> None:
    first = pipeline.memory.ingest("bob", "s1", FOUR)
    before = counts(pipeline)
    again = pipeline.memory.ingest("bob", "s1", FOUR)
    prefix = pipeline.memory.ingest("bob", "s1", FOUR[:2])
    assert first == again == prefix
    assert (again.accepted.new_turns, again.accepted.new_windows, prefix.accepted.new_turns) == (0, 0, 0)
    assert counts(pipeline) == before


def test_undated_turns_can_be_sent_again_too(pipeline: Stack) -> None:
    undated = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    assert pipeline.memory.ingest("bob", "s1", undated) == pipeline.memory.ingest("bob", "s1", undated)


def test_contradicting_turns_are_refused_and_change_nothing(pipeline: Stack) -> None:
    pipeline.memory.ingest("bob", "s1", FOUR)
    before = counts(pipeline)
    changed = [*FOUR[:3], {**FOUR[3], "content": "I adopted a dog."}, *said("More.", start=1_700_001_000)]
    with pytest.raises(SessionConflict, match="Turn 4"):
        pipeline.memory.ingest("bob", "s1", changed)
    assert counts(pipeline) == before


def test_one_session_from_eight_threads_is_stored_once(pipeline: Stack) -> None:
    faults: list[BaseException] = []

    def send() -> None:
        try:
            pipeline.memory.ingest("bob", "s1", FOUR)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            faults.append(error)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert counts(pipeline)["turn"] == 4


def test_an_appended_turn_waits_for_the_second_one_of_its_cell(pipeline: Stack) -> None:
    pipeline.memory.append("bob", "s1", FOUR[0])
    state = "SELECT state, first_turn, last_turn FROM memforest.cell ORDER BY ordinal"
    assert [tuple(row) for row in pipeline.rows(state)] == [("held", 0, 0)]
    pipeline.memory.append("bob", "s1", FOUR[1])
    assert [tuple(row) for row in pipeline.rows(state)] == [("ready", 0, 1)]
    pipeline.memory.append("bob", "s1", FOUR[2])
    assert [tuple(row) for row in pipeline.rows(state)] == [("ready", 0, 1), ("held", 2, 2)]


def test_a_quiet_period_closes_the_open_cell(pipeline: Stack) -> None:
    pipeline.memory.append("bob", "s1", FOUR[0])
    assert pipeline.services.reconciler.run().released == 0
    pipeline.execute("UPDATE memforest.cell SET available_at = now() - interval '1 second'")
    assert pipeline.services.reconciler.run().released == 1
    pipeline.drive()
    assert pipeline.memory.status("bob", "s1").placed == 1


def test_appending_the_same_turn_again_is_free(pipeline: Stack) -> None:
    turn = {**FOUR[0], "id": "m-1"}
    pipeline.memory.append("bob", "s1", turn)
    before = counts(pipeline)
    assert pipeline.memory.append("bob", "s1", turn).accepted.new_turns == 0
    assert counts(pipeline) == before
    with pytest.raises(SessionConflict):
        pipeline.memory.append("bob", "s1", {**turn, "content": "Something else."})


def test_a_sent_session_closes_what_append_left_open(pipeline: Stack) -> None:
    pipeline.memory.append("bob", "s1", FOUR[0])
    pipeline.memory.ingest("bob", "s1", FOUR)
    rows = pipeline.rows("SELECT state, first_turn, last_turn FROM memforest.cell ORDER BY ordinal")
    assert [tuple(row) for row in rows] == [("ready", 0, 1), ("ready", 2, 3)]


@pytest.fixture
def app(pipeline: Stack) -> Iterator[sa.Engine]:
    """The app's own engine on the same database, with a table of its own."""
    engine = pipeline.owner_engine()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE public.orders (id int)")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("how", ["connection", "orm"])
def test_the_callers_transaction_carries_the_session(pipeline: Stack, app: sa.Engine, how: str) -> None:
    """Given the app's open transaction, when it commits, then order and session are there; else neither."""
    client = pipeline.memory.client
    for commit in (False, True):
        connection = app.connect()
        transaction = connection.begin()
        connection.execute(sa.text("INSERT INTO public.orders VALUES (1)"))
        connection.execute(sa.text("SELECT set_config('memforest.tenant', 'theirs', true)"))
        joined = OrmSession(bind=connection) if how == "orm" else connection
        client.enqueue("bob", "s1", FOUR, transaction=joined)
        assert connection.scalar(sa.text("SELECT current_setting('memforest.tenant', true)")) == "theirs"
        (transaction.commit if commit else transaction.rollback)()
        connection.close()
        assert counts(pipeline)["turn"] == (4 if commit else 0)
        assert pipeline.rows("SELECT count(*) FROM public.orders")[0][0] == (1 if commit else 0)


def test_a_refused_session_leaves_the_callers_transaction_usable(pipeline: Stack, app: sa.Engine) -> None:
    client = pipeline.memory.client
    client.enqueue("bob", "s1", FOUR)
    with app.begin() as connection:
        connection.execute(sa.text("INSERT INTO public.orders VALUES (1)"))
        with pytest.raises(SessionConflict):
            client.enqueue("bob", "s1", [{**FOUR[0], "content": "Other."}], transaction=connection)
        connection.execute(sa.text("INSERT INTO public.orders VALUES (2)"))
    assert pipeline.rows("SELECT count(*) FROM public.orders")[0][0] == 2


def test_a_broker_that_is_away_delays_but_does_not_refuse(servers: SessionServers, tmp_path: Path) -> None:
    """Given no broker, when a session is sent, then it is stored within seconds and work finds it later."""
    gone = {"url": "redis://127.0.0.1:1/0", "publish_timeout_s": 1.0}
    with stack(servers, tmp_path, broker=gone) as pipeline:
        started = time.monotonic()
        pipeline.memory.ingest("bob", "s1", FOUR)
        assert time.monotonic() - started < 10
        assert counts(pipeline)["turn"] == 4
        pipeline.drive()
        assert pipeline.memory.status("bob", "s1").placed == 2


def test_ten_thousand_turns_are_fine_and_twenty_thousand_and_one_are_not(pipeline: Stack) -> None:
    from memforest_core.errors import InvalidInput

    many = [{"role": "user", "content": f"Number {n}.", "timestamp": 1_700_000_000 + n} for n in range(10_000)]
    assert pipeline.memory.ingest("bob", "s1", many).accepted.new_turns == 10_000
    assert pipeline.rows("SELECT count(*) FROM memforest.cell")[0][0] == 5_000
    with pytest.raises(InvalidInput, match="20000 turns"):
        pipeline.memory.ingest("bob", "s2", [{"role": "user", "content": "x"}] * 20_001)
    assert pipeline.rows("SELECT count(*) FROM memforest.session")[0][0] == 1
