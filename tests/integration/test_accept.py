"""Accepting on real Postgres: a session is stored whole in one transaction, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session as OrmSession

from memforest_core.client.producer import MemForestClient
from memforest_core.errors import InvalidInput, InvalidSettings, MemForestError, SessionConflict, StoreUnavailable
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.store.engine import tenant_transaction
from memforest_core.work import publishing as wakeups
from tests.harness.proxy import door
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, admin, at, database, stack
from tests.harness.timing import until

LONG_AGO = "UPDATE memforest.cell SET available_at = clock_timestamp() WHERE state = 'held'"
CELLS = """SELECT ordinal, window_ordinal, first_turn, last_turn, text, state, xmin::text AS version
             FROM memforest.cell ORDER BY session_id, ordinal"""


def client_of(pipeline: Stack) -> MemForestClient:
    return pipeline.memory.client


def cells(pipeline: Stack) -> list[tuple[int, int, int, int, str]]:
    """(ordinal, window, first turn, last turn, state) of each cell."""
    return [(row.ordinal, row.window_ordinal, row.first_turn, row.last_turn, row.state) for row in pipeline.rows(CELLS)]


def claimed(pipeline: Stack) -> int:
    """Claim every window there is; how many."""
    found = 0
    while True:
        with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
            if rows.claim_window(pipeline.runtime.worker, 60.0) is None:
                return found
            found += 1


def test_a_session_is_stored_with_its_turns_cells_and_windows_in_one_transaction(pipeline: Stack) -> None:
    handle = client_of(pipeline).enqueue("bob", "s1", said("One.", "Two.", "Three.", "Four.", "Five."))

    assert (handle.accepted.turns, handle.accepted.new_turns, handle.accepted.new_windows) == (5, 5, 2)
    assert cells(pipeline) == [(0, 0, 0, 1, "ready"), (1, 0, 2, 3, "ready"), (2, 2, 4, 4, "ready")]
    written = pipeline.rows(
        """SELECT DISTINCT xmin::text FROM memforest.turn UNION SELECT xmin::text FROM memforest.cell
           UNION SELECT xmin::text FROM memforest.session UNION SELECT xmin::text FROM memforest.forest
           UNION SELECT xmin::text FROM memforest.index_row UNION SELECT xmin::text FROM memforest.speaker"""
    )
    assert len(written) == 1
    assert pipeline.counts()["index_row"] == 3
    assert pipeline.rows("SELECT turn_count, cell_count FROM memforest.session") == [(5, 3)]
    status = handle.status()
    assert (status.stage, status.turns, status.cells, status.indexed) == ("accepted", 5, 3, 0)


def test_a_turn_is_stored_as_it_was_sent(pipeline: Stack) -> None:
    sent = {
        "id": "m1",
        "role": "user",
        "content": "Zoë 🌲\r\n\tsaid: \\u0000 'x' %s",
        "timestamp": "2023-05-08T10:00:00.123456+02:00",
        "speaker_id": "u7",
        "name": "Bob",
        "metadata": {"deep": [1.5, None, {"é": "\\u0000"}]},
    }
    client_of(pipeline).enqueue("bob", "s1", [sent])

    [row] = pipeline.rows("SELECT * FROM memforest.turn")
    assert (row.external_id, row.role, row.content) == ("m1", "user", sent["content"])
    assert row.occurred_at == datetime(2023, 5, 8, 8, 0, 0, 123_456, tzinfo=UTC)
    assert (row.speaker_id, row.name, row.metadata) == ("u7", "Bob", sent["metadata"])
    assert pipeline.rows("SELECT speaker_id, name FROM memforest.speaker") == [("u7", "Bob")]


def test_the_longest_names_are_stored(pipeline: Stack) -> None:
    """Given names of 1,024 bytes that nothing compresses, then every index entry still has room for them."""
    names = ["".join(chr(0x4E00 + (7 * n + 13 * n * n + k) % 20_000) for n in range(341)) for k in (0, 5_000, 9_000)]
    owner, speaker, name = names

    turn = {"role": "user", "content": "Hello there.", "speaker_id": speaker, "name": name}
    handle = client_of(pipeline).enqueue(owner, names[0], [turn])

    assert handle.status().turns == 1


@pytest.mark.parametrize("sent", [3, 1], ids=["the same", "a shorter version"])
def test_sending_again_is_free_and_returns_an_equal_handle(pipeline: Stack, sent: int) -> None:
    turns = said("One.", "Two.", "Three.")
    first = client_of(pipeline).enqueue("bob", "s1", turns)
    before, rows = pipeline.counts(), pipeline.rows(CELLS)

    repeated = client_of(pipeline).enqueue("bob", "s1", turns[:sent])

    assert repeated == first
    assert (repeated.accepted.turns, repeated.accepted.new_turns, repeated.accepted.new_windows) == (3, 0, 0)
    assert pipeline.counts() == before
    assert pipeline.rows(CELLS) == rows


def test_an_undated_session_can_be_sent_again_at_any_time(pipeline: Stack) -> None:
    turns = [{"role": "user", "content": "One."}, {"role": "assistant", "content": "Two."}]
    first = client_of(pipeline).enqueue("bob", "s1", turns)
    time.sleep(0.01)

    assert client_of(pipeline).enqueue("bob", "s1", turns).accepted.new_turns == 0
    longer = client_of(pipeline).enqueue("bob", "s1", [*turns, {"role": "user", "content": "Three."}])

    assert longer == first
    assert longer.accepted.new_turns == 1
    assert len(pipeline.rows("SELECT DISTINCT occurred_at FROM memforest.turn")) == 1


def test_a_longer_version_adds_only_what_is_new(pipeline: Stack) -> None:
    """Given three stored turns, when seven are sent, then four are new and no stored cell is touched."""
    turns = said("One.", "Two.", "Three.", "Four.", "Five.", "Six.", "Seven.")
    client_of(pipeline).enqueue("bob", "s1", turns[:3])
    before = pipeline.rows(CELLS)
    assert claimed(pipeline) == 1

    longer = client_of(pipeline).enqueue("bob", "s1", turns)

    assert (longer.accepted.turns, longer.accepted.new_turns, longer.accepted.new_windows) == (7, 4, 1)
    after = pipeline.rows(CELLS)
    assert [row[:5] for row in after[:2]] == [row[:5] for row in before]
    assert [row.state for row in after] == ["running", "running", "ready", "ready"]
    assert [(row.first_turn, row.last_turn) for row in after] == [(0, 1), (2, 2), (3, 4), (5, 6)]
    assert claimed(pipeline) == 1


@pytest.mark.parametrize("change", ["content", "role", "name", "timestamp", "order"])
def test_turns_that_contradict_stored_ones_are_refused_and_nothing_changes(pipeline: Stack, change: str) -> None:
    turns = said("One.", "Two.", "Three.")
    client_of(pipeline).enqueue("bob", "s1", turns)
    before, rows = pipeline.counts(), pipeline.rows(CELLS)
    other = [dict(turn) for turn in turns] + said("Four.", start=1_700_009_000)
    values = {"content": "Uno.", "role": "tool", "name": "Eve", "timestamp": 1_600_000_000}
    if change == "order":
        other[0], other[1] = other[1], other[0]
    else:
        other[1][change] = values[change]

    with pytest.raises(SessionConflict) as refused:
        client_of(pipeline).enqueue("bob", "s1", other)

    assert refused.value.code == "session_conflict"
    assert refused.value.message == (
        f"Turn {1 if change == 'order' else 2} differs from the stored one: send it under a new session id."
    )
    assert pipeline.counts() == before
    assert pipeline.rows(CELLS) == rows


# Appending


def append(pipeline: Stack, text: str, number: int = 0, **fields: object) -> tuple[int, int]:
    """Append a turn; how many turns and windows were new."""
    turn = {"role": "user", "content": text, "timestamp": 1_700_000_000 + 60 * number, **fields}
    accepted = client_of(pipeline).append("bob", "s1", turn).accepted
    return accepted.new_turns, accepted.new_windows


def test_an_appended_turn_is_searchable_before_its_second_closes_the_cell(pipeline: Stack) -> None:
    assert append(pipeline, "One.") == (1, 0)
    assert cells(pipeline) == [(0, 0, 0, 0, "held")]
    assert claimed(pipeline) == 0
    assert pipeline.runtime.maintain() == 1
    assert client_of(pipeline).status("bob", "s1").stage == "raw"

    assert append(pipeline, "Two.", 1) == (1, 1)
    assert cells(pipeline) == [(0, 0, 0, 1, "ready")]
    assert pipeline.rows("SELECT text FROM memforest.cell") == [("bob: One.\nbob: Two.",)]
    [row] = pipeline.rows("SELECT version, indexed_version, state FROM memforest.index_row")
    assert (row.version > row.indexed_version > 0, row.state) == (True, "ready")
    assert claimed(pipeline) == 1


def test_each_appended_turn_goes_to_the_open_cell_or_opens_one(pipeline: Stack) -> None:
    """Given appends with a pause of a day after the third, then cells are those of the session sent at once."""
    for number in (0, 1, 2, 1_440, 1_441):
        append(pipeline, f"Turn {number}.", number)

    assert cells(pipeline) == [(0, 0, 0, 1, "ready"), (1, 1, 2, 2, "ready"), (2, 2, 3, 4, "ready")]
    assert claimed(pipeline) == 3
    append(pipeline, "Turn 1442.", 1_442)
    assert cells(pipeline)[-1] == (3, 3, 5, 5, "held")


def test_a_cell_spans_the_times_of_turns_that_come_out_of_order(pipeline: Stack) -> None:
    append(pipeline, "Later.", 60)
    append(pipeline, "Sooner.", 0)

    [row] = pipeline.rows("SELECT time_start, time_end FROM memforest.cell")
    assert row.time_start == datetime.fromtimestamp(1_700_000_000, UTC)
    assert row.time_end == datetime.fromtimestamp(1_700_003_600, UTC)


def test_the_quiet_period_releases_an_open_cell(pipeline: Stack) -> None:
    """Given an open cell, when the reconciler runs, then it waits until the quiet period is over."""
    append(pipeline, "One.")
    assert pipeline.services.reconciler.run().released == 0
    assert cells(pipeline)[0][-1] == "held"

    pipeline.execute(LONG_AGO)

    assert pipeline.services.reconciler.run().released == 1
    assert cells(pipeline) == [(0, 0, 0, 0, "ready")]
    assert append(pipeline, "Two.", 1) == (1, 0)
    assert cells(pipeline) == [(0, 0, 0, 0, "ready"), (1, 1, 1, 1, "held")]


def test_flush_closes_open_cells_at_once(pipeline: Stack) -> None:
    append(pipeline, "I live in Davis.")

    with pytest.raises(MemForestError) as late:
        client_of(pipeline).flush("bob", timeout_s=0.05)

    assert late.value.code == "wait_timeout"
    assert cells(pipeline) == [(0, 0, 0, 0, "ready")]
    pipeline.drive()
    assert client_of(pipeline).flush("bob", timeout_s=5).done


def test_appending_a_turn_of_the_same_id_again_changes_nothing(pipeline: Stack) -> None:
    append(pipeline, "One.", id="a")
    append(pipeline, "Two.", 1, id="b")
    before, rows = pipeline.counts(), pipeline.rows(CELLS)

    assert append(pipeline, "One.", id="a") == (0, 0)

    assert pipeline.counts() == before
    assert pipeline.rows(CELLS) == rows
    with pytest.raises(SessionConflict, match="'a' is stored with other content"):
        append(pipeline, "Uno.", id="a")
    assert pipeline.counts() == before


def test_the_whole_session_can_be_sent_after_it_was_appended(pipeline: Stack) -> None:
    """Given three appended turns, when the session is sent whole, then its open cell closes and nothing is doubled."""
    turns = [
        {"role": "user", "content": f"Turn {number}.", "timestamp": 1_700_000_000 + 60 * number} for number in range(5)
    ]
    for turn in turns[:3]:
        client_of(pipeline).append("bob", "s1", turn)
    assert cells(pipeline)[-1] == (1, 1, 2, 2, "held")

    assert client_of(pipeline).enqueue("bob", "s1", turns[:3]).accepted.new_turns == 0
    assert cells(pipeline) == [(0, 0, 0, 1, "ready"), (1, 1, 2, 2, "ready")]
    assert client_of(pipeline).enqueue("bob", "s1", turns).accepted.new_turns == 2
    assert cells(pipeline)[2:] == [(2, 2, 3, 4, "ready")]


def test_appended_and_then_extracted_the_trees_hold_each_cell_once(pipeline: Stack) -> None:
    for number, text in enumerate(["I live in Davis.", "I adopted a dog.", "I work at the lab."]):
        append(pipeline, text, number)
        pipeline.drive()
    pipeline.execute(LONG_AGO)
    pipeline.services.reconciler.run()
    pipeline.drive()

    status = client_of(pipeline).status("bob", "s1")
    assert (status.stage, status.cells, status.placed) == ("summaries", 2, 2)


# Side by side


def together(count: int, work: list[object]) -> list[BaseException]:
    """Call every function of ``work`` at once in threads of their own; what they raised."""
    start, raised = threading.Barrier(count), list[BaseException]()

    def run(call: object) -> None:
        assert callable(call)
        start.wait()
        try:
            call()
        except MemForestError as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_a_session_sent_by_eight_threads_at_once_is_stored_once(pipeline: Stack) -> None:
    """Given a new tenant, owner and session, when eight send it together, then one stores it and all get its handle."""
    turns = said(*[f"Turn {number}." for number in range(20)])
    handles = []

    raised = together(8, [lambda: handles.append(client_of(pipeline).enqueue("bob", "s1", turns))] * 8)

    assert raised == []
    assert len(handles) == 8 and all(handle == handles[0] for handle in handles)
    assert sorted(handle.accepted.new_turns for handle in handles) == [0] * 7 + [20]
    counts = pipeline.counts()
    assert (counts["tenant"], counts["forest"], counts["session"]) == (1, 1, 1)
    assert (counts["turn"], counts["cell"], counts["index_row"]) == (20, 10, 10)


def test_turns_appended_at_once_are_all_stored_in_some_order(pipeline: Stack) -> None:
    raised = together(8, [lambda number=number: append(pipeline, f"Turn {number}.", number) for number in range(8)])

    assert raised == []
    rows = pipeline.rows("SELECT ordinal, content FROM memforest.turn ORDER BY ordinal")
    assert [row.ordinal for row in rows] == list(range(8))
    assert {row.content for row in rows} == {f"Turn {number}." for number in range(8)}
    assert [cell[2:4] for cell in cells(pipeline)] == [(0, 1), (2, 3), (4, 5), (6, 7)]


# Inside the caller's transaction


@contextmanager
def app_connection(pipeline: Stack) -> Iterator[sa.Connection]:
    """The app's own connection, as MemForest's service role, with a table of the app's own."""
    pipeline.execute("CREATE TABLE IF NOT EXISTS public.note (id int PRIMARY KEY)")
    pipeline.execute("GRANT ALL ON public.note TO memforest_service")
    engine = sa.create_engine(pipeline.settings.database.url.get_secret_value())
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def notes(pipeline: Stack) -> int:
    return int(str(pipeline.rows("SELECT count(*) FROM public.note")[0][0]))


TENANT = sa.text("SELECT current_setting('memforest.tenant', true)")
NOTE = sa.text("INSERT INTO public.note VALUES (:id)")


def test_a_session_commits_with_the_apps_own_data(pipeline: Stack) -> None:
    with app_connection(pipeline) as connection:
        connection.execute(NOTE, {"id": 1})
        handle = client_of(pipeline).enqueue("bob", "s1", said("One.", "Two."), transaction=connection)
        assert pipeline.counts()["session"] == 0
        connection.commit()

    assert (notes(pipeline), pipeline.counts()["session"]) == (1, 1)
    assert handle.status().turns == 2
    assert claimed(pipeline) == 1


def test_a_session_is_gone_with_the_apps_rollback(pipeline: Stack) -> None:
    with app_connection(pipeline) as connection:
        connection.execute(NOTE, {"id": 1})
        client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=connection)
        client_of(pipeline).append("bob", "s2", said("Two.")[0], transaction=connection)
        connection.rollback()

    assert notes(pipeline) == 0
    assert all(not pipeline.counts()[table] for table in ("tenant", "forest", "session", "turn", "cell", "index_row"))


def test_an_orm_session_carries_it_too(pipeline: Stack) -> None:
    with app_connection(pipeline) as connection, OrmSession(connection) as orm:
        orm.execute(NOTE, {"id": 1})
        client_of(pipeline).append("bob", "s1", said("One.")[0], transaction=orm)
        assert pipeline.counts()["session"] == 0
        orm.commit()
        client_of(pipeline).enqueue("bob", "s2", said("Two."), transaction=orm)
        orm.rollback()

    assert (notes(pipeline), pipeline.counts()["session"]) == (1, 1)


@pytest.mark.parametrize("granted", ["GRANT memforest_service TO shop", None], ids=["a member", "no member"])
def test_an_apps_own_role_needs_a_grant(pipeline: Stack, servers: SessionServers, granted: str | None) -> None:
    """Given an app that connects as a role of its own, then it joins as a member of the service's group; otherwise
    the error says what to grant."""
    admin(servers, "DROP ROLE IF EXISTS shop")
    admin(servers, "CREATE ROLE shop LOGIN")
    if granted is not None:
        pipeline.execute(granted)
    engine = sa.create_engine(at(servers.postgres_url, database=pipeline.database, user="shop"))
    try:
        with engine.connect() as connection:
            if granted is not None:
                client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=connection)
                connection.commit()
                assert pipeline.counts()["session"] == 1
            else:
                with pytest.raises(InvalidSettings, match="GRANT memforest_service TO ROLE"):
                    client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=connection)
    finally:
        engine.dispose()


@pytest.mark.parametrize("found", [None, "", "another"], ids=["never set", "empty", "another tenant"])
def test_the_transactions_tenant_is_left_as_found(pipeline: Stack, found: str | None) -> None:
    with app_connection(pipeline) as connection:
        if found is not None:
            connection.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": found})
        client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=connection)
        assert (connection.scalar(TENANT) or "") == (found or "")
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.session")) == 0
        with pytest.raises(InvalidInput):
            client_of(pipeline).enqueue("bob", "s2", [], transaction=connection)
        assert (connection.scalar(TENANT) or "") == (found or "")
        connection.commit()

    assert pipeline.counts()["session"] == 1


def test_a_refusal_leaves_the_apps_transaction_usable(pipeline: Stack) -> None:
    """Given turns that contradict stored ones, then the app can still write and commit."""
    client_of(pipeline).enqueue("bob", "s1", said("One."))
    before = pipeline.counts()

    with app_connection(pipeline) as connection:
        connection.execute(NOTE, {"id": 1})
        with pytest.raises(SessionConflict):
            client_of(pipeline).enqueue("bob", "s1", said("Uno."), transaction=connection)
        connection.execute(NOTE, {"id": 2})
        connection.commit()

    assert notes(pipeline) == 2
    assert pipeline.counts() == before


def test_a_store_that_refuses_leaves_the_apps_transaction_usable(pipeline: Stack) -> None:
    """Given a session that another transaction holds, when the lock times out, then only our part is undone."""
    client_of(pipeline).enqueue("bob", "s1", said("One."))
    with app_connection(pipeline) as holder, app_connection(pipeline) as connection:
        client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=holder)
        connection.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        connection.execute(NOTE, {"id": 1})
        with pytest.raises(MemForestError) as refused:
            client_of(pipeline).enqueue("bob", "s1", said("One.", "Two."), transaction=connection)
        assert refused.value.code == "store_unavailable"
        connection.execute(NOTE, {"id": 2})
        connection.commit()

    assert notes(pipeline) == 2
    assert pipeline.counts()["turn"] == 1


def test_what_is_no_open_transaction_is_refused(pipeline: Stack) -> None:
    with app_connection(pipeline) as closed:
        pass
    with app_connection(pipeline) as failed, app_connection(pipeline) as automatic:
        with pytest.raises(sa.exc.ProgrammingError):
            failed.execute(sa.text("SELECT nonsense"))
        automatic.execution_options(isolation_level="AUTOCOMMIT")
        url = sa.make_url(pipeline.settings.database.url.get_secret_value())
        with closing(psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False))) as raw:
            for transaction in (raw, closed, failed, automatic, "BEGIN"):
                with pytest.raises(InvalidInput) as refused:
                    client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=transaction)
                assert refused.value.code == "invalid_transaction"
        automatic.rollback()

    assert pipeline.counts()["session"] == 0


def test_a_transaction_of_another_database_is_refused(pipeline: Stack, servers: SessionServers) -> None:
    """Given a connection to another database of MemForest, to one of none, or to no Postgres, then nothing is stored."""
    with database(servers) as other:
        for url in (other.url.get_secret_value(), at(servers.postgres_url, database="postgres"), "sqlite://"):
            engine = sa.create_engine(url)
            with engine.connect() as connection:
                for _ in range(2):
                    with pytest.raises((InvalidInput, InvalidSettings), match=r"one of (another database|sqlite)"):
                        client_of(pipeline).enqueue("bob", "s1", said("One."), transaction=connection)
                connection.commit()
            engine.dispose()
        with sa.create_engine(other.url.get_secret_value()).connect() as connection:
            connection.execute(sa.text("SELECT set_config('memforest.tenant', :t, false)"), {"t": pipeline.tenant})
            assert connection.scalar(sa.text("SELECT count(*) FROM memforest.session")) == 0
            connection.engine.dispose()

    assert pipeline.counts()["session"] == 0


# The broker


@pytest.mark.parametrize("fault", ["shut", "freeze"])
def test_an_unavailable_broker_delays_work_and_refuses_nothing(
    servers: SessionServers, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a broker that fails after a first message, then sessions are accepted in bounded time, and woken later."""
    monkeypatch.setattr(wakeups, "REST_S", 3.0)
    with door(servers.broker_url) as way:
        broker = {"url": way.url, "publish_timeout_s": 1.0}
        with stack(servers, tmp_path, broker=broker) as pipeline:
            client_of(pipeline).enqueue("bob", "s0", said("One."))
            way.shut() if fault == "shut" else way.freeze()

            started = time.monotonic()
            handle = client_of(pipeline).enqueue("bob", "s1", said("One."))
            assert time.monotonic() - started < 5
            assert handle.status().turns == 1
            started = time.monotonic()
            client_of(pipeline).append("bob", "live", said("One.")[0])
            client_of(pipeline).enqueue("bob", "s2", said("One."))
            assert pipeline.services.reconciler.run().woken == 0
            assert time.monotonic() - started < 2, "the broker is left alone for a while"

            way.reopen()
            until(lambda: pipeline.services.reconciler.run().woken, 20)
            assert claimed(pipeline) == 3


def test_a_session_grows_to_its_limit_and_not_beyond(servers: SessionServers, tmp_path: Path) -> None:
    """Given a limit of 4 turns, then a fifth is refused whether it is sent or appended."""
    with stack(servers, tmp_path, accept={"max_turns": 4}) as pipeline:
        client_of(pipeline).enqueue("bob", "s1", said("1", "2", "3", "4"))
        before = pipeline.counts()
        with pytest.raises(InvalidInput) as sent:
            client_of(pipeline).enqueue("bob", "s1", said("1", "2", "3", "4", "5"))
        with pytest.raises(InvalidInput) as appended:
            client_of(pipeline).append("bob", "s1", said("5")[0])
        assert sent.value.code == appended.value.code == "too_many_turns"
        assert pipeline.counts() == before


TURNS = "SELECT ordinal, external_id, content FROM memforest.turn ORDER BY session_id, ordinal"


def spoken(content: str, id_: str | None = None) -> dict[str, object]:
    return {"role": "user", "content": content} | ({} if id_ is None else {"id": id_})


def test_a_turn_without_an_id_is_never_taken_for_one_that_has_an_id_like_ours(pipeline: Stack) -> None:
    """Given ids that count up as generated ones did, when turns without ids come, then all of them are stored."""
    client = client_of(pipeline)
    client.enqueue("bob", "s1", [spoken("Hello.", "turn-1"), spoken("Yes.", "turn-2")])

    assert client.append("bob", "s1", spoken("Yes.")).accepted.new_turns == 1
    assert client.append("bob", "s1", spoken("No.")).accepted.new_turns == 1
    longer = [
        spoken("Hello.", "turn-1"),
        spoken("Yes.", "turn-2"),
        spoken("Yes."),
        spoken("No."),
        spoken("So.", "turn-3"),
    ]
    assert client.enqueue("bob", "s1", longer).accepted.new_turns == 1
    assert [row.content for row in pipeline.rows(TURNS)] == ["Hello.", "Yes.", "Yes.", "No.", "So."]


@pytest.mark.parametrize(
    ("state", "says"),
    [("53100", "no disk space"), ("53200", "no memory"), ("53300", "no more connections"), ("58030", "its files")],
)
def test_a_server_in_need_is_not_called_unreachable(pipeline: Stack, state: str, says: str) -> None:
    """Given an error that Postgres raises itself, then the sentence says what is wrong with it."""
    with (
        pytest.raises(StoreUnavailable) as refused,
        tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection,
    ):
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$")

    assert says in refused.value.message and state in refused.value.message
    assert "reached" not in refused.value.message
