"""Turns of cold topics are packed: every reader has their texts, everything that changes memory takes them out."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memforest_core import InvalidInput, SessionConflict, Temperature, Topic
from memforest_core.assistant.topics.cooling import TopicCooling
from memforest_core.domain.temperature import MemoryKind
from memforest_core.errors import InvariantViolated
from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from memforest_core.service.explorer.page_requests import href
from memforest_core.store import packs
from tests.harness.forked import in_children
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned
from tests.integration.test_erasure import assert_nowhere, assert_verified
from tests.integration.test_explorer import serving
from tests.integration.test_topics import DAYS_100, GARDEN, RUNS, SHOP, tell, topic
from tests.integration.test_topics_cold import age, cells_of, tend

__all__ = ["tell"]

SESSIONS = {"shop": SHOP, "garden": GARDEN, "run": RUNS}
Packed = tuple[Stack, Topic, str]
"""A stack, a topic that is packed, and the session in which all of it was said."""


@pytest.fixture
def aged(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stack]:
    """Four topics of which two may stay hot; however small, they are packed when they are cold."""
    monkeypatch.setattr(packs, "LEAST_BYTES", 1)
    with cloned(servers, grown, tmp_path, embedder, topics={"max_topics": 2}) as running:
        age(running)
        yield running


@pytest.fixture
def packed(aged: Stack) -> Packed:
    assert tend(aged).cooled == 2
    return (aged, *cold_one(aged))


def cold_one(running: Stack) -> tuple[Topic, str]:
    for name, word in {"shop": "bought", "garden": "tomato", "run": "ran"}.items():
        found = topic(running, word)
        if found.temperature is Temperature.COLD:
            return found, name
    raise AssertionError("nothing is cold")


def count(running: Stack, condition: str) -> int:
    return int(running.rows(f"SELECT count(*) FROM memforest.turn WHERE {condition}")[0][0])


def all_said(running: Stack, owner: str = "bob") -> dict[str, list[str]]:
    return {session: [turn.content for turn in running.memory.turns(owner, session).items] for session in SESSIONS}


def test_a_packed_turn_is_read_everywhere_and_warmed_when_its_topic_is_read(packed: Packed) -> None:
    running, each, name = packed
    assert count(running, "content IS NULL") == count(running, "pack IS NOT NULL") == 16
    assert_verified(running)
    assert all_said(running) == SESSIONS
    line = SESSIONS[name][3]
    found = running.memory.recall("bob", line, k=3)
    assert f"Bob: {line}" in [piece.text for piece in found.evidence]
    with serving(running) as site:
        for path in (href("/search", q=line), href("/session", owner="bob", session=name), "/"):
            assert line in site.admin.get(path).text or SESSIONS[name][0] in site.admin.get(path).text, path
    stats = running.memory.topic_stats("bob", each.id)
    assert (stats.active_turns, stats.compressed_turns, stats.not_compressed) == (0, 8, "")
    assert stats.text_bytes == sum(len(said) for said in SESSIONS[name])
    assert 0 < stats.stored_bytes == round(stats.text_bytes * (1 - stats.compression))
    assert (stats.memory, stats.half_life_s, stats.has_summary) == (MemoryKind.SHORT, 86_400, True)
    assert stats.inactive_s > 29 * 86_400

    assert [item.turn.content for item in running.memory.topic_history("bob", each.id).items] == SESSIONS[name]
    stats = running.memory.topic_stats("bob", each.id)
    assert (stats.active_turns, stats.compressed_turns) == (8, 0)
    assert stats.not_compressed
    assert count(running, "pack IS NOT NULL") == 8
    assert_verified(running)


def test_turns_of_a_session_that_is_being_copied_are_packed_later(aged: Stack) -> None:
    with aged.owner.begin() as connection:
        connection.execute(sa.text("SELECT 1 FROM memforest.session FOR SHARE"))
        assert tend(aged).cooled == 2
        assert count(aged, "pack IS NOT NULL") == 0
    tend(aged)
    assert count(aged, "pack IS NOT NULL") == 16


def forgotten(running: Stack, name: str, _: Path) -> str:
    running.memory.lifecycle.forget("bob", session=name, turns=["turn@3"], actor="test")
    running.drive()
    assert_nowhere(running, SESSIONS[name][3])
    return "bob"


def merged(running: Stack, _name: str, _: Path) -> str:
    running.memory.enqueue("ann", "shop", turns_of("shop")[:4])
    running.drive()
    running.memory.lifecycle.merge(["bob"], "ann", actor="test")
    running.drive()
    return "ann"


def bundled(running: Stack, _name: str, directory: Path) -> str:
    bundles, path = running.services.lifecycle.bundles, directory / "bob.memforest"
    bundles.export(running.tenant, "bob", path, actor="test")
    assert count(running, "pack IS NOT NULL") == 16
    bundles.import_(running.tenant, path, owner="copy", actor="test")
    running.drive()
    return "copy"


def rebuilt(running: Stack, _name: str, _: Path) -> str:
    running.memory.lifecycle.rematerialize("bob", rules={"session_k": 4}, actor="test")
    running.drive()
    return "bob"


def sent_twice(running: Stack, name: str, _: Path) -> str:
    running.memory.enqueue("bob", name, turns_of(name))
    with pytest.raises(SessionConflict):
        running.memory.enqueue("bob", name, [{**turns_of(name)[0], "content": "Something else."}])
    running.drive()
    return "bob"


def united(running: Stack, _name: str, _: Path) -> str:
    first, second = (each for each in running.memory.topics("bob").items if each.temperature is Temperature.COLD)
    running.memory.topic_merge("bob", first.id, second.id)
    running.drive()
    tend(running)
    return "bob"


def turns_of(name: str) -> list[Any]:
    number = list(SESSIONS).index(name)
    return said(*SESSIONS[name], start=1_700_000_000 + number * DAYS_100)


@pytest.mark.parametrize("change", [forgotten, merged, bundled, rebuilt, sent_twice, united])
def test_what_changes_memory_leaves_every_text(
    packed: Packed, tmp_path: Path, change: Callable[[Stack, str, Path], str]
) -> None:
    running, _, name = packed
    owner = change(running, name, tmp_path)
    expected = {session: list(lines) for session, lines in SESSIONS.items()}
    if change is forgotten:
        expected[name][3] = ""
    assert all_said(running, owner) == expected
    assert_verified(running)


def test_a_round_that_is_killed_leaves_all_or_nothing(aged: Stack) -> None:
    """Given kill -9 while turns are packed, then none is, and the next round does it; two at once leave one pack each."""

    def killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dying() -> None:
        packs._move = killed  # type: ignore[assignment]
        aged.services.topic_cooling.run()

    assert in_children(dying) == [None]
    assert count(aged, "pack IS NOT NULL") == 0
    assert all_said(aged) == SESSIONS
    rounds = [replace(aged.services.topic_cooling, _left=[]) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(TopicCooling.run, rounds))
    aged.drive()
    assert len(aged.rows("SELECT 1 FROM memforest.turn_pack")) == 2
    assert all_said(aged) == SESSIONS
    assert_verified(aged)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("DELETE FROM memforest.turn_pack", "no_pack"),
        ("UPDATE memforest.turn_pack SET texts = substr(texts, 1, 40)", "unreadable"),
        ("UPDATE memforest.turn_pack SET text_bytes = text_bytes + 1", "text"),
        ("UPDATE memforest.turn SET content = 'x', pack = NULL WHERE pack IS NOT NULL AND ordinal = 1", "turns"),
        ("UPDATE memforest.turn SET content = 'x', pack = NULL", "no_turn"),
    ],
)
def test_a_damaged_pack_is_found(packed: Packed, damage: str, what: str) -> None:
    running, _, name = packed
    running.execute(damage)
    report = open_verification(running.services.engine, running.services.index, running.services.settings).run()
    [found] = [each for each in report.checks if each.check is Check.PACKS]
    assert dict(found.kinds) == {what: 2}
    if what in ("no_pack", "unreadable"):
        with pytest.raises(InvariantViolated):
            running.memory.turns("bob", name)


def test_small_topics_are_not_packed_and_what_is_packed_comes_out_when_it_is_off(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, _, _ = packed
    cooling = running.services.topic_cooling
    replace(cooling, settings=cooling.settings.model_copy(update={"pack": False})).run()
    assert count(running, "pack IS NOT NULL") == 0
    monkeypatch.undo()
    for one in running.memory.topics("bob").items:
        running.memory.topic_history("bob", one.id)
    age(running)
    assert tend(running).cooled == 2
    assert f"below {packs.LEAST_BYTES}" in running.memory.topic_stats("bob", cold_one(running)[0].id).not_compressed
    assert count(running, "pack IS NOT NULL") == 0


def test_an_importance_is_set_moved_and_copied_by_what_changes_the_topic(aged: Stack) -> None:
    memory, each = aged.memory, topic(aged, "bought")
    assert memory.topic_rate("bob", each.id, 0.9).importance == pytest.approx(0.9)
    assert memory.topic_rate("bob", each.id, useful=False).importance == pytest.approx(0.72)
    assert memory.topic_rate("bob", each.id, useful=True).importance == pytest.approx(0.776)
    for wrong in ({}, {"importance": 2}, {"importance": True}, {"importance": 0.5, "useful": True}):
        with pytest.raises(InvalidInput):
            memory.topic_rate("bob", each.id, **wrong)  # type: ignore[arg-type]
    memory.lifecycle.merge(["bob"], "ann", actor="test")
    aged.drive()
    assert [found.importance for found in memory.topics("ann").items if "bought" in found.title] == [
        pytest.approx(0.776)
    ]


def test_a_policy_deletes_topics_that_are_cold_for_long_with_a_receipt(packed: Packed) -> None:
    """Given two cold topics of which one has a pinned turn, then the other goes for good, and nothing of hot ones."""
    running, each, name = packed
    lifecycle = running.memory.lifecycle
    other = next(
        one
        for one in SESSIONS
        if one != name
        and count(
            running,
            f"pack IS NOT NULL AND session_id = (SELECT session_id FROM memforest.session WHERE external_id = '{one}')",
        )
    )
    lifecycle.pin("bob", session=other, actor="test")
    lifecycle.set_policy("bob", faded_max_age_days=10, actor="test")
    assert lifecycle.preview_policy("bob").faded == ()
    running.execute("UPDATE memforest.tree SET cold_at = cold_at - interval '11 days'")
    preview = lifecycle.preview_policy("bob").faded
    assert set(preview) == set(cells_of(running, each))
    [done] = lifecycle.apply_policy("bob", actor="test")
    running.drive()
    assert lifecycle.operation(done.id).progress["faded"] == len(preview)
    assert each.id not in {found.id for found in running.memory.topics("bob").items}
    assert_nowhere(running, SESSIONS[name][3])
    assert all_said(running) == SESSIONS | {name: [""] * 8}
    assert_verified(running)
