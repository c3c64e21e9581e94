"""Timelines over the real pipeline: what held when, what superseded it, and which turns say so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner

from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.toolkit.memory_opening import use_opener
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.models.calls import Embedder
from memforest_core.recall import cli as command
from memforest_core.recall.rows import chains as statements
from memforest_core.recall.states import Timeline, TimelineState
from memforest_core.recall.timeline import TimelineService, open_timeline
from memforest_core.store.engine import tenant_transaction
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

SPRING = (
    ("2022-03-01T09:00:00Z", "I live in Bergen with my cousin."),
    ("2022-03-01T09:01:00Z", "I work as a baker."),
    ("2022-03-01T09:02:00Z", "I weigh 81 kg."),
    ("2022-03-01T09:03:00Z", "I adopted a cat named Misty."),
)
SUMMER = (
    ("2022-07-10T09:00:00Z", "I moved to Porto in June 2022."),
    ("2022-07-10T09:01:00Z", "I weigh 78 kg."),
    ("2022-07-10T09:02:00Z", "I adopted a dog named Bruno on 2 July 2022."),
    ("2022-07-10T09:03:00Z", "I am moving to Oslo next year."),
)
WINTER = (
    ("2023-01-15T09:00:00Z", "I live in Porto and the rain is loud."),
    ("2023-01-15T09:01:00Z", "I quit my job last week."),
    ("2023-01-15T09:02:00Z", "I got hired as a librarian yesterday."),
    ("2023-01-15T09:03:00Z", "Clara moved to Lima in December 2022."),
)


def turns(said: tuple[tuple[str, str], ...], name: str = "Ines") -> list[dict[str, object]]:
    return [
        {"id": f"t{at}", "role": "user", "name": name, "content": text, "timestamp": when}
        for at, (when, text) in enumerate(said)
    ]


@pytest.fixture(scope="module")
def ines(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Stack]:
    """Three sessions of one owner, the latest stored first; nothing here changes them."""
    with stack(servers, tmp_path_factory.mktemp("timeline"), embedder=embedder) as running:
        for name, said in (("winter", WINTER), ("summer", SUMMER), ("spring", SPRING)):
            running.memory.ingest("ines", name, turns(said))
            running.drive()
        yield running


@pytest.fixture
def service(ines: Stack) -> TimelineService:
    return open_timeline(ines.services.engine)


def reported(found: Timeline) -> list[tuple[str, bool]]:
    return [(state.value, state.current) for state in found.states]


def test_states_are_ordered_by_event_and_the_last_one_is_current(ines: Stack, service: TimelineService) -> None:
    found = service.timeline(ines.tenant, "ines", attribute="residence")
    assert reported(found) == [("Bergen", False), ("Porto", True), ("Oslo", False)]
    bergen, porto, oslo = found.states
    assert porto.supersedes == (bergen.fact_id,)
    assert bergen.superseded_by == porto.fact_id
    assert oslo.modality == "planned"
    assert oslo.superseded_by is None
    assert not oslo.supersedes


def test_the_three_times_are_separate(ines: Stack, service: TimelineService) -> None:
    bergen, porto, _ = service.timeline(ines.tenant, "ines", attribute="residence").states
    assert bergen.time_label == "date unknown"
    assert not bergen.time.known
    assert bergen.mentioned_at == datetime(2022, 3, 1, 9, tzinfo=UTC)
    assert porto.time_label == "June 2022"
    assert porto.mentioned_at == datetime(2022, 7, 10, 9, tzinfo=UTC)
    # Bergen was said first and stored last.
    assert datetime.now(UTC) - timedelta(minutes=10) < porto.known_since < bergen.known_since <= datetime.now(UTC)


def test_the_same_value_said_again_is_one_state_with_all_its_turns(ines: Stack, service: TimelineService) -> None:
    porto = service.timeline(ines.tenant, "ines", attribute="residence").states[1]
    assert porto.mentions == 2
    assert len(porto.fact_ids) == 2
    assert [(turn.session_id, turn.turn_id, turn.speaker, turn.text) for turn in porto.evidence] == [
        ("summer", "t0", "Ines", SUMMER[0][1]),
        ("winter", "t0", "Ines", WINTER[0][1]),
    ]
    assert porto.last_mentioned_at == datetime(2023, 1, 15, 9, tzinfo=UTC)


def test_a_stop_ends_the_current_state_and_a_new_start_begins(ines: Stack, service: TimelineService) -> None:
    baker, stop, librarian = service.timeline(ines.tenant, "ines", attribute="job").states
    assert (baker.value, baker.superseded_by, stop.supersedes) == ("baker", stop.fact_id, (baker.fact_id,))
    assert (stop.change, stop.current) == ("stop", False)
    assert (librarian.value, librarian.current, librarian.supersedes) == ("librarian", True, ())


def test_figures_follow_each_other_and_pets_do_not(ines: Stack, service: TimelineService) -> None:
    assert reported(service.timeline(ines.tenant, "ines", attribute="weight")) == [("81 kg", False), ("78 kg", True)]
    pets = service.timeline(ines.tenant, "ines", attribute="pet")
    assert reported(pets) == [("cat named Misty", True), ("dog named Bruno", True)]


def test_as_of_knows_what_had_been_said_by_then(ines: Stack, service: TimelineService) -> None:
    spring = service.timeline(ines.tenant, "ines", attribute="residence", as_of="2022-05-01")
    assert reported(spring) == [("Bergen", True)]
    assert spring.states[0].superseded_by is None
    # The move of June was mentioned in July.
    assert reported(service.timeline(ines.tenant, "ines", attribute="residence", as_of="2022-07-01")) == [
        ("Bergen", True)
    ]
    autumn = service.timeline(ines.tenant, "ines", attribute="residence", as_of="2022-10-01")
    assert reported(autumn) == [("Bergen", False), ("Porto", True), ("Oslo", False)]
    assert autumn.states[1].mentions == 1
    assert reported(service.timeline(ines.tenant, "ines", attribute="residence", as_of="2021-01-01")) == []


def test_since_and_until_keep_what_happened_then(ines: Stack, service: TimelineService) -> None:
    found = service.timeline(ines.tenant, "ines", entity="ines", since="2022-06-15", until="2022-07-05")
    assert [state.value for state in found.states] == ["Porto", "dog named Bruno"]
    found = service.timeline(ines.tenant, "ines", attribute="job", since="2023-01-10")
    assert reported(found) == [("librarian", True)]


def test_an_entity_has_all_its_attributes_and_the_owner_all_names(ines: Stack, service: TimelineService) -> None:
    clara = service.timeline(ines.tenant, "ines", entity="clara")
    assert [(state.subject, state.attribute, state.value) for state in clara.states] == [("Clara", "residence", "Lima")]
    mine = service.timeline(ines.tenant, "ines", entity="Ines")
    assert {state.attribute for state in mine.states} == {"residence", "job", "weight", "pet"}
    assert mine == service.timeline(ines.tenant, "ines", entity="ines")


def test_part_of_a_longer_name_finds_it(pipeline: Stack) -> None:
    pipeline.memory.ingest("ann", "s", turns((("2022-03-01T09:00:00Z", "My sister lives in Turku."),), name="Ann"))
    pipeline.drive()
    service = open_timeline(pipeline.services.engine)
    found = service.timeline(pipeline.tenant, "ann", entity="sister", attribute="residence")
    assert [(state.subject, state.value) for state in found.states] == [("Ann's sister", "Turku")]
    with pytest.raises(InvalidInput, match="Attributes: residence"):
        service.timeline(pipeline.tenant, "ann", entity="sister", attribute="job")


def test_everybody_has_a_chain_of_their_own(ines: Stack, service: TimelineService) -> None:
    found = service.timeline(ines.tenant, "ines", entity="*", attribute="home")
    assert {(state.subject, state.value) for state in found.states if state.current} == {
        ("Ines", "Porto"),
        ("Clara", "Lima"),
    }


def test_a_scene_lists_its_facts_in_order(ines: Stack, service: TimelineService) -> None:
    found = service.timeline(ines.tenant, "ines", scene="work")
    assert [state.attribute for state in found.states] == ["job", "job", "job"]
    assert reported(found)[-1] == ("librarian", True)
    pets = service.timeline(ines.tenant, "ines", scene="pets", entity="ines", attribute="pet")
    assert [state.value for state in pets.states] == ["cat named Misty", "dog named Bruno"]


def test_pages_join_into_the_whole(ines: Stack, service: TimelineService) -> None:
    whole = service.timeline(ines.tenant, "ines", entity="ines")
    assert not whole.truncated
    assert whole.cursor is None
    paged: list[TimelineState] = []
    cursor: str | None = None
    while True:
        page = service.timeline(ines.tenant, "ines", entity="ines", limit=3, cursor=cursor)
        paged += page.states
        cursor = page.cursor
        assert page.truncated == (cursor is not None)
        if cursor is None:
            break
        assert len(page.states) == 3
    assert tuple(paged) == whole.states


@pytest.mark.parametrize(
    "options, code, says",
    [
        ({"entity": "Zoltan"}, "unknown_entity", "Clara"),
        ({"attribute": "shoe size"}, "unknown_attribute", "weight"),
        ({"entity": "Clara", "attribute": "pet"}, "unknown_attribute", "Attributes: residence."),
        ({"scene": "pets", "attribute": "job"}, "unknown_attribute", "Attributes: pet."),
        ({"entity": "*", "attribute": "shoe size"}, "unknown_attribute", "residence"),
        ({"scene": "opera"}, "unknown_scene", "pets"),
        ({"scene": "pets", "entity": "Zoltan"}, "unknown_entity", "Clara"),
        ({"attribute": " "}, "invalid_name", "non-empty"),
        ({"attribute": "job", "limit": 0}, "invalid_limit", "1 to 1000"),
        ({"attribute": "job", "cursor": "x.1"}, "invalid_cursor", "cursor"),
        ({"attribute": "job", "as_of": "soon"}, "invalid_timestamp", "ISO 8601"),
        ({"attribute": "job", "since": "2023-01-01", "until": "2022-01-01"}, "invalid_range", "until"),
    ],
)
def test_bad_requests_are_refused_with_what_exists(
    ines: Stack, service: TimelineService, options: dict[str, str], code: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        service.timeline(ines.tenant, "ines", **options)  # type: ignore[arg-type]
    assert refused.value.code == code
    assert says in refused.value.message


def test_an_owner_who_says_nothing_of_themselves_learns_whom_to_ask_about(pipeline: Stack) -> None:
    pipeline.memory.ingest("club", "s", turns((SPRING[0],)))
    pipeline.drive()
    with pytest.raises(InvalidInput, match=r"of 'club'\. Entities: Ines\."):
        open_timeline(pipeline.services.engine).timeline(pipeline.tenant, "club", attribute="residence")


def test_owners_and_tenants_do_not_see_each_other(ines: Stack, service: TimelineService) -> None:
    for tenant, owner in ((ines.tenant, "nobody"), (TenantId("other"), "ines")):
        found = service.timeline(tenant, owner, attribute="job")
        assert (found.states, found.owner_known) == ((), False)


def test_without_a_name_it_is_all_states_of_the_owner_and_with_a_star_of_everybody(
    ines: Stack, service: TimelineService
) -> None:
    """Given the README's ``memforest timeline --owner O``, then all chains of the owner come in one order of time."""
    own, everybody = service.timeline(ines.tenant, "ines"), service.timeline(ines.tenant, "ines", entity="*")
    for attribute in ("residence", "job"):
        assert {s.fact_id for s in service.timeline(ines.tenant, "ines", attribute=attribute).states} <= {
            state.fact_id for state in own.states
        }
    assert own.owner_known
    assert {state.attribute for state in own.states} >= {"residence", "job"}
    assert {state.subject for state in own.states} == {"Ines"}
    assert {state.subject for state in everybody.states} >= {"Ines", "Clara"}
    assert [state.fact_id for state in everybody.states if state.subject == "Ines"] == [
        state.fact_id for state in own.states
    ]


def test_an_owner_with_no_state_of_their_own_yet_has_an_empty_timeline(pipeline: Stack) -> None:
    pipeline.memory.ingest("club", "s", turns((SPRING[0],)))
    pipeline.drive()
    known = open_timeline(pipeline.services.engine).timeline(pipeline.tenant, "club")
    assert (known.states, known.owner_known) == ((), True)


def test_a_wrong_request_is_refused_before_the_owner_is_known(pipeline: Stack) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        open_timeline(pipeline.services.engine).timeline(pipeline.tenant, "nobody", limit=0)


@pytest.fixture
def run(ines: Stack, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command as an operator calls it: the database is named by the environment."""
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", ines.settings.database.url.get_secret_value())
    use_opener(ProgramOpener())
    return CliRunner()


def program() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(command.timeline)
    return app


def test_the_command_prints_one_state_a_line(run: CliRunner) -> None:
    printed = run.invoke(program(), ["timeline", "--owner", "ines", "--attribute", "residence"])
    assert printed.exit_code == 0
    heading, bergen, porto, oslo, summary = printed.stdout.splitlines()
    assert heading.split() == ["when", "who", "state", "value", "mark", "said", "turns", "source"]
    assert re.split(r"\s{2,}", bergen.strip()) == [
        "date unknown", "Ines", "residence", "Bergen", "superseded", "2022-03-01", "spring/t0", 'rules: "I live in Bergen with my cousin."'
    ]  # fmt: skip
    assert re.split(r"\s{2,}", porto.strip()) == [
        "June 2022", "Ines", "residence", "Porto", "current", "2022-07-10 ×2", "summer/t0, winter/t0", 'rules: "I moved to Porto in June 2022."'
    ]  # fmt: skip
    assert re.split(r"\s{2,}", oslo.strip()) == [
        "2023", "Ines", "residence", "Oslo", "planned", "2022-07-10", "summer/t3", 'rules: "I am moving to Oslo next year."'
    ]  # fmt: skip
    assert summary == "3 states, 1 current. Found by rules; a chat model finds more."


def test_the_command_prints_json_for_programs(run: CliRunner) -> None:
    printed = run.invoke(program(), ["timeline", "-o", "ines", "-a", "job", "--as-of", "2022-12-31", "--json"])
    found = json.loads(printed.stdout)
    assert [(state["value"], state["current"], state["time_label"]) for state in found["states"]] == [
        ("baker", True, "date unknown")
    ]
    assert found["states"][0]["evidence"][0]["turn_id"] == "t1"
    assert run.invoke(program(), ["timeline", "-o", "ines", "--since", "2020"]).exit_code != 0


def counted(service: TimelineService, stack: Stack, owner: str, **options: str) -> int:
    """Statements of one timeline."""
    seen: list[str] = []

    def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    sa.event.listen(stack.services.engine, "before_cursor_execute", count)
    try:
        service.timeline(stack.tenant, owner, **options)  # type: ignore[arg-type]
    finally:
        sa.event.remove(stack.services.engine, "before_cursor_execute", count)
    return len(seen)


def test_a_long_chain_takes_as_many_statements_as_a_short_one(pipeline: Stack) -> None:
    start = datetime(2022, 1, 1, tzinfo=UTC)
    weighed = [
        ((start + timedelta(days=day)).isoformat(), f"I weigh {60 + day % 40}.{day % 10} kg.") for day in range(120)
    ]
    pipeline.memory.ingest("short", "s", turns(tuple(weighed[:2]), name="short"))
    pipeline.memory.ingest("long", "s", turns(tuple(weighed), name="long"))
    pipeline.drive()
    service = open_timeline(pipeline.services.engine)
    long = service.timeline(pipeline.tenant, "long", attribute="weight", limit=1_000)
    assert len(long.states) == 120
    assert [state.current for state in long.states].count(True) == 1
    statements_of = {owner: counted(service, pipeline, owner, attribute="weight") for owner in ("short", "long")}
    assert statements_of["long"] == statements_of["short"] <= 6


FILL = (
    """INSERT INTO memforest.forest (tenant_id, forest_id, owner)
       SELECT 'default', :f, 'p'""",
    """INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at)
       SELECT 'default', md5('session' || i)::uuid, :f, 's' || i, 'UTC', now() FROM generate_series(1, :n / 10) i""",
    """INSERT INTO memforest.turn (tenant_id, session_id, ordinal, external_id, role, content, occurred_at, dated,
                                   speaker_id, name)
       SELECT 'default', md5('session' || (1 + i % (:n / 10)))::uuid, i, 't' || i, 'user', 'text', now(), true, 'p', 'P'
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
                                   last_turn, text, text_hash, time_start, time_end, state)
       SELECT 'default', md5('cell' || i)::uuid, :f, md5('session' || (1 + i % (:n / 10)))::uuid, i, i, i, i, 'text',
              '\\x00', now(), now(), 'done' FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.candidate (tenant_id, cell_id, item, turn_ordinals, quote, statement, text_hash,
                                        routing_hash)
       SELECT 'default', md5('cell' || i)::uuid, 0, ARRAY[i], '', '{}', '\\x00', '\\x00'
         FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.fact (tenant_id, fact_id, forest_id, text, normalized, text_hash, mentioned_at,
                                   subject_key, attribute, statement, key_time, key_ordinal, key_item)
       SELECT 'default', md5('fact' || i)::uuid, :f, 'text', 'text', '\\x00', now(), 'subject' || i % 500,
              CASE WHEN i % 3 = 0 THEN 'pet' ELSE '' END, '{}', i, 0, 0 FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.occurrence (tenant_id, cell_id, item, fact_id, session_id, turn_ordinals)
       SELECT 'default', md5('cell' || i)::uuid, 0, md5('fact' || i)::uuid,
              md5('session' || (1 + i % (:n / 10)))::uuid, ARRAY[i] FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.tree (tenant_id, tree_id, forest_id, kind, scope_key, label, state, k)
       SELECT 'default', md5('tree' || i)::uuid, :f, 'scene', 'tree' || i, 'tree', 'active', 8
         FROM generate_series(1, :n / 10) i""",
    """INSERT INTO memforest.node (tenant_id, node_id, tree_id, level, key_time, key_ordinal, key_item, key_id,
                                    leaf_count, version, clean_version, payload_id)
       SELECT 'default', md5('node' || i)::uuid, md5('tree' || (1 + i % (:n / 10)))::uuid, 0, i, 0, 0, '', 1, 1, 1,
              md5('fact' || i)::uuid FROM generate_series(1, :n) i""",
    """INSERT INTO memforest.placement (tenant_id, tree_id, payload_id, session_id)
       SELECT 'default', md5('tree' || (1 + i % (:n / 10)))::uuid, md5('fact' || i)::uuid,
              md5('session' || (1 + i % (:n / 10)))::uuid FROM generate_series(1, :n) i""",
    "ANALYZE",
)
VOLUME = 20_000
WHOLE_FOREST = {"CHAINS", "OF_ATTRIBUTES", "SCENES"}
"""They list what a forest has, so that they read it: its facts with attributes, or its trees."""


def test_no_statement_of_one_chain_reads_a_whole_table(pipeline: Stack) -> None:
    """At a volume where it matters, under row security, with the planner's own estimates."""
    forest = UUID(int=5)
    for statement in FILL:
        pipeline.execute(statement, f=forest, n=VOLUME)
    facts = [
        UUID(str(row[0])) for row in pipeline.rows("SELECT fact_id FROM memforest.fact ORDER BY key_time LIMIT 50")
    ]
    trees = [UUID(str(row[0])) for row in pipeline.rows("SELECT tree_id FROM memforest.tree LIMIT 3")]
    sessions = [UUID(str(row[0])) for row in pipeline.rows("SELECT session_id FROM memforest.session LIMIT 50")]
    values: dict[str, object] = {
        "t": pipeline.tenant,
        "f": forest,
        "subjects": ["subject1", "subject2"],
        "attributes": ["pet", "pets"],
        "trees": trees,
        "facts": facts,
        "until": None,
        "sessions": sessions,
        "ordinals": list(range(50)),
        "chars": 100,
        "n": 100,
    }
    hot = {
        name: getattr(statements, name)
        for name in dir(statements)
        if isinstance(getattr(statements, name), sa.TextClause) and name not in WHOLE_FOREST
    }
    assert hot.keys() == {"OF_SUBJECTS", "OF_TREES", "MENTIONS", "SOURCES"}
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        for name, statement in hot.items():
            plan = "\n".join(connection.scalars(sa.text(f"EXPLAIN {statement.text}"), values))
            assert "Seq Scan" not in plan, f"{name}:\n{plan}"
