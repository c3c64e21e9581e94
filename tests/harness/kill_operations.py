"""Operations that a kill may hit, and writers that add turns during one."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memforest_core.assistant.profile.persons import note_turn
from memforest_core.assistant.topics.cooling import TopicCooling
from memforest_core.client.api import MemForest
from memforest_core.client.services.service import Services
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import NotFound, QuotaExceeded, RetryableError
from memforest_core.lifecycle.rebuild.records import Options
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.packs import LEAST_BYTES
from memforest_core.work.records import Numbers, OperationTask
from memforest_core.work.runner import Handler
from tests.harness.end_state import State
from tests.harness.grown_forests import BOB, DAY_S, KYOTO, MONDAY, NEW_SESSION, PHONE, PHONE_KYOTO, WINDOWED
from tests.harness.sayings import said

ACTOR = "kill-points"
REQUESTING: ContextVar[str] = ContextVar("requesting", default=ACTOR)
"""Who requests, for the audit: with two operations at once, each asker has a name."""
BEFORE = "before"
"""Who did what operations find."""
COUNT_TO = 3
_BUNDLE = "bob.memforest"
_MOVED = "moved.memforest"
"""What is imported; an export concurrently with it writes the other one."""

_FACT = sa.text(
    """
    SELECT c.fact_id FROM memforest.fact c JOIN memforest.forest f USING (tenant_id, forest_id)
     WHERE f.owner = :owner AND f.state = 'live' AND c.text LIKE :words
    """
)

Act = Callable[[Services, Path], object]


def _unseen(_services: Services, _directory: Path) -> Sequence[str]:
    return ()


def _none(_services: Services) -> Mapping[str, Handler]:
    return {}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the forests of ``grown``."""

    act: Act
    """Requests for it; called again by the process that takes over from a killed process."""
    prepare: Act | None = None
    """What it finds when it begins, where that is more than the three forests."""
    seen: Callable[[Services, Path], Sequence[str]] = _unseen
    """What else belongs to the end state: the files that it left."""
    handlers: Callable[[Services], Mapping[str, Handler]] = _none
    """Tasks of its own, which no worker knows."""


def tenant_of(services: Services) -> TenantId:
    """The tenant of all of this."""
    return TenantId(services.settings.tenant)


def _requested(kind: OperationKind, ask: Callable[[Services], object], **more: Any) -> Operation:
    """Ask for an operation unless the audit says that it was requested: a caller whose process died can look."""

    def act(services: Services, _directory: Path) -> None:
        entries = services.operations.audit(tenant_of(services), action=kind.value)
        if not any(entry.actor == REQUESTING.get() and entry.outcome == "requested" for entry in entries):
            ask(services)

    return Operation(act, **more)


def _counting(sound: bool) -> Callable[[Services], Mapping[str, Handler]]:
    """A task that counts to three in a column of every forest, one step at a time.

    The sound one writes the number, the other adds one: taken again, it counts too far.
    """

    def handlers(services: Services) -> Mapping[str, Handler]:
        change = "scene_seq = 1000 + :step" if sound else "scene_seq = scene_seq + 1"
        statement = sa.text(f"UPDATE memforest.forest SET {change}")

        def step(tenant: TenantId, _task: OperationTask, progress: Numbers) -> Numbers | None:
            at = int(progress.get("step", 0))
            if at == COUNT_TO:
                return None
            with tenant_transaction(services.engine, tenant) as connection:
                connection.execute(statement, {"step": at + 1} if sound else {})
            return {"step": at + 1}

        return {OperationKind.RETAIN: step}

    return handlers


def _ask_to_count(services: Services) -> None:
    services.operations.ask(tenant_of(services), OperationKind.RETAIN, None, {}, actor=REQUESTING.get())


def _rebuild(services: Services, _directory: Path) -> None:
    """Nobody's audit has it: its task says whether it was requested."""
    with tenant_transaction(services.engine, tenant_of(services)) as connection:
        requested = connection.scalar(sa.text("SELECT count(*) FROM memforest.maintenance"))
    if not requested:
        services.maintenance.upkeep.rebuild()


TOYS: Mapping[str, Operation] = {
    "counting": _requested(OperationKind.RETAIN, _ask_to_count, handlers=_counting(sound=True)),
    "counting-twice": _requested(OperationKind.RETAIN, _ask_to_count, handlers=_counting(sound=False)),
}
"""What shows that a run catches a task that can't be repeated, and lets one pass that can."""


def _fact(services: Services, owner: str, words: str) -> FactId:
    """The owner's one fact that has these words."""
    with tenant_transaction(services.engine, tenant_of(services)) as connection:
        found = connection.scalars(_FACT, {"owner": owner, "words": f"%{words}%"}).all()
    if not found:
        raise NotFound(f"No fact of {owner} says {words}.")
    assert len(found) == 1, f"{len(found)} facts say {words}"
    return FactId(found[0])


def _erasing(**target: object) -> Operation:
    """Deleting from Bob's forest."""

    def ask(services: Services) -> None:
        services.lifecycle.erasure.ask(tenant_of(services), BOB, **target, actor=REQUESTING.get())  # type: ignore[arg-type]

    return _requested(OperationKind.ERASE, ask)


def _erase_fact(services: Services) -> None:
    fact = _fact(services, BOB, "numbered 3")
    services.lifecycle.erasure.ask(tenant_of(services), BOB, fact=fact, actor=REQUESTING.get())


def _correcting(*, erase: bool) -> Operation:
    def ask(services: Services) -> None:
        fact = _fact(services, BOB, "in Davis")
        services.lifecycle.correction.correct(
            tenant_of(services), BOB, fact, text="Bob lives in Woodland.", erase=erase, actor=REQUESTING.get()
        )

    return _requested(OperationKind.CORRECT, ask)


def _pin(services: Services) -> None:
    fact = _fact(services, BOB, "dog named Rex")
    services.lifecycle.correction.set_pinned(tenant_of(services), BOB, fact, REQUESTING.get(), True)


def _merging(sources: Sequence[str], into: str) -> Operation:
    def ask(services: Services) -> None:
        services.lifecycle.merging.ask(tenant_of(services), sources, into, actor=REQUESTING.get())

    return _requested(OperationKind.MERGE, ask)


def _rematerialize(services: Services) -> None:
    rules = {"entity_k": 3, "scene_k": 3, "session_k": 4}
    services.lifecycle.rematerializing.ask(tenant_of(services), BOB, Options(rules), actor=REQUESTING.get())


def _ended(services: Services, kind: OperationKind) -> bool:
    entries = services.operations.audit(tenant_of(services), action=kind.value)
    return any(entry.actor == REQUESTING.get() and entry.outcome == "done" for entry in entries)


def _export(services: Services, directory: Path) -> None:
    """The caller of a process that died exports again."""
    if not _ended(services, OperationKind.EXPORT):
        _write_bundle(services, directory / _BUNDLE, REQUESTING.get())


def _write_bundle(services: Services, path: Path, actor: str) -> None:
    services.lifecycle.bundles.export(tenant_of(services), BOB, path, actor=actor, overwrite=True)


def _copy_out(services: Services, directory: Path) -> None:
    _write_bundle(services, directory / _MOVED, BEFORE)


def _move_out(services: Services, directory: Path) -> None:
    """The bundle is all that is left of the forest: its ids are free."""
    _copy_out(services, directory)
    services.lifecycle.erasure.ask(tenant_of(services), BOB, everything=True, actor=BEFORE)


def _importing(owner: str, prepare: Act) -> Operation:
    def act(services: Services, directory: Path) -> None:
        services.lifecycle.bundles.import_(tenant_of(services), directory / _MOVED, owner, actor=REQUESTING.get())

    return Operation(act, prepare=prepare)


_SETTLED = ("session", "turn", "cell", "speaker")
"""Kinds of rows of which an export has as many as before or after another operation. Of other kinds it has what there was
at its moment: placing a corrected fact and making summaries are transactions of their own."""


def _bundle_rows(services: Services, directory: Path) -> Sequence[str]:
    """How many settled rows an export wrote: random ids in them are no two runs' the same. It must be importable."""
    if not (directory / _BUNDLE).exists():
        return []
    with closing(sqlite3.connect(directory / _BUNDLE)) as bundle:
        [[rows]] = bundle.execute("SELECT value FROM meta WHERE name = 'rows'").fetchall()
    services.lifecycle.bundles.import_(
        tenant_of(services), directory / _BUNDLE, "imported", actor="harness", dry_run=True
    )
    return [f"{kind}: {count}" for kind, count in json.loads(rows).items() if kind in _SETTLED]


_PIN = """UPDATE memforest.turn SET pinned = true WHERE external_id = 'home-3' AND session_id IN (
               SELECT session_id FROM memforest.session s JOIN memforest.forest f USING (tenant_id, forest_id)
                WHERE f.owner = :owner)"""


def _set_policy(services: Services, _directory: Path) -> None:
    """Of Bob's first two sessions all is too old but a turn that is pinned, with its cell; so are a fact of that cell,
    the digests of three days, and what windows hold of them. Of the rest there are too many facts."""
    retention, tenant = services.lifecycle.retention, tenant_of(services)
    for days in (0, 7, 40, 60):
        services.calendar.summarize(tenant, BOB, day=datetime.fromtimestamp(MONDAY + days * DAY_S, UTC).date())
    with tenant_transaction(services.engine, tenant) as connection:
        for statement in (_PIN, *WINDOWED):
            connection.execute(sa.text(statement), {"owner": BOB})

    def age(day: int) -> float:
        """Of what came so many days after the first; what is older is too old."""
        return (time.time() - (MONDAY + day * DAY_S)) / DAY_S

    retention.set_policy(
        tenant,
        BOB,
        max_age_days=age(20),
        facts_max_age_days=age(30),
        digests_max_age_days=age(50),
        window_max_age_days=age(50),
        max_facts=6,
        fraction=0.5,
        actor=BEFORE,
    )


def _retain(services: Services) -> None:
    services.lifecycle.retention.apply(tenant_of(services), BOB, actor=REQUESTING.get())


def _remember(services: Services, _directory: Path) -> None:
    """A note under an id of its own: retained once, however often it is said."""
    tenant = tenant_of(services)
    turn, _ = note_turn(services.engine, tenant, BOB, "I moved to Lisbon.", None, MONDAY + 70 * DAY_S)
    services.producer.acceptance.enqueue(tenant, BOB, "note-lisbon", [turn], note=True)


def _summarize_day(services: Services, _directory: Path) -> None:
    services.calendar.summarize(tenant_of(services), BOB, day=datetime.fromtimestamp(MONDAY, UTC).date())


def _learn_topics(services: Services, _directory: Path) -> None:
    """Three more topics, of four facts each, with a reply that is long enough for a pack."""
    for name, words in _TOPICS.items():
        turns = said(*(words.format(n) for n in range(21, 25)), start=MONDAY + 20 * DAY_S)
        reply: TurnInput = {"role": "assistant", "content": "Noted. " * LEAST_BYTES, "timestamp": MONDAY + 21 * DAY_S}
        reply["content"] = reply["content"][:LEAST_BYTES]
        services.producer.acceptance.enqueue(tenant_of(services), BOB, name, [*turns, reply])


_TOPICS = {
    "garden": "I planted {0} tomato seeds in garden bed {0}.",
    "races": "I ran {0} kilometers in race {0}.",
    "shop": "I bought item{0} for {0} dollars.",
}


def _cool(services: Services, _directory: Path) -> None:
    """One topic may stay, and the others are forgotten within a blink, and packed."""
    hurried = {"max_topics": 1, "half_life_s": 1e-6}
    TopicCooling(services.engine, services.settings.topics.model_copy(update=hurried)).run()


def _return(services: Services, directory: Path) -> None:
    """A turn returns to a topic that is packed, which warms it; what a kill left cold, the next round warms."""
    tenant, text = tenant_of(services), _TOPICS["garden"].format(29)
    with tenant_transaction(services.engine, tenant) as connection:
        said_already = connection.scalar(sa.text("SELECT count(*) FROM memforest.session WHERE external_id = 'later'"))
    if not said_already:
        _cool(services, directory)
    matching = services.topic_matcher.begun(tenant, "user", text)
    turn: TurnInput = {**said(text, start=MONDAY + 90 * DAY_S)[0], "id": "returned"}
    services.producer.acceptance.enqueue(tenant, BOB, "later", [turn], appends=True, close=True, placing=matching.place)
    found = matching.ended().topic
    assert found is None or not found.begun
    TopicCooling(services.engine, services.settings.topics).run()


def _topics_read(services: Services, _directory: Path) -> Sequence[str]:
    """The packs, every text, and what is found of words of cold topics."""
    memory = MemForest(services)
    with tenant_transaction(services.engine, tenant_of(services)) as connection:
        packs = connection.scalar(sa.text("SELECT count(*) FROM memforest.turn_pack"))
    assert packs
    texts = [turn.content for name in _TOPICS for turn in memory.turns(BOB, name).items]
    found = [memory.recall(BOB, words.format(22), k=1).evidence[0].text for words in _TOPICS.values()]
    return [f"{packs} packs", *texts, *found]


REAL: Mapping[str, Operation] = {
    "rebuild": Operation(_rebuild),
    "erase-turn": _erasing(session="home", turns=["home-1"]),
    "erase-session": _erasing(session="kyoto"),
    "erase-fact": _requested(OperationKind.ERASE, _erase_fact),
    "erase-speaker": _erasing(speaker="dana"),
    "erase-range": _erasing(since=MONDAY + 39 * DAY_S, until=MONDAY + 40 * DAY_S + 300),
    "erase-owner": _erasing(everything=True),
    "correct": _correcting(erase=False),
    "correct-erase": _correcting(erase=True),
    "pin": _requested(OperationKind.CORRECT, _pin),
    "merge-new": _merging([BOB, PHONE], "bob-whole"),
    "merge-live": _merging([PHONE], BOB),
    "export": Operation(_export, seen=_bundle_rows),
    "import": _importing("bob-copy", _copy_out),
    "import-back": _importing(BOB, _move_out),
    "rematerialize": _requested(OperationKind.REMATERIALIZE, _rematerialize),
    "retain": _requested(OperationKind.RETAIN, _retain, prepare=_set_policy),
    "remember": Operation(_remember),
    "summarize-day": Operation(_summarize_day),
    "cool": Operation(_cool, prepare=_learn_topics, seen=_topics_read),
    "return": Operation(_return, prepare=_learn_topics, seen=_topics_read),
}

OPERATIONS: Mapping[str, Operation] = {**TOYS, **REAL, "erase-new-session": _erasing(session=NEW_SESSION)}


WRITERS = APPENDS, LATE = "appends", "late"
"""Threads that append to one session; a caller's own transaction that extends it and commits late."""
BEGUN, OVER = ".begun", ".over"
"""Files by which a writer reports that it has sent its first turn, and hears that the operation is over."""
QUIET_S = 0.2
"""How long the cell of an appended turn stays open."""
THREADS = 3
FEWEST, MOST = 4, 20
"""Turns that each thread appends before the operation ends; one more follows after that."""
PAUSE_S = 0.5
"""The longest pause of a thread between two turns."""
LATE_S = 3.0
"""The longest delay of a late commit, counted from when the operation was requested or waits for the transaction."""
POLL_S = 0.01
TRIES = 6_000

SessionOf = tuple[str, str]
"""A session's name and its owner."""

_IMPORTED = ("kyoto", "bob-copy")
_EARLIER = {("kyoto", BOB): KYOTO, ("kyoto", PHONE): KYOTO[:2], ("flight", PHONE): PHONE_KYOTO, _IMPORTED: KYOTO}
"""The turns of each session that is extended. The owner of the last one exists only after the import."""
_EXTENDED: dict[str, list[SessionOf]] = {
    "merge-live": [("kyoto", BOB), ("kyoto", PHONE), ("flight", PHONE)],
    "import": [("kyoto", BOB), _IMPORTED],
}
_DELETED = {"erase-session": f"{BOB} (live)/kyoto", "erase-owner": f"{BOB} (live)/"}
"""How the names of deleted sessions begin."""
_BLOCKED_BY = sa.text("SELECT true FROM pg_locks WHERE NOT granted AND :pid = ANY (pg_blocking_pids(pid)) LIMIT 1")


def extended_by(operation: str, number: int) -> SessionOf:
    """The session that is extended during an operation, at a point with this number."""
    sessions = _EXTENDED.get(operation, [("kyoto", BOB)])
    return sessions[number % len(sessions)]


def extra_turn(id_: str) -> TurnInput:
    """A turn whose id is in its words and in its fact, and nowhere else. It is younger than what policies delete."""
    return said(f"I bought {id_} for 100 dollars.", start=MONDAY + 90 * DAY_S)[0] | {"id": id_}


class Writer:
    """Adds turns to a session while another process works on an operation."""

    def __init__(self, services: Services, session: SessionOf, asker: str, seed: str, begun: Path) -> None:
        """``asker`` is the name in the audit that requests the operation."""
        self._services = services
        self._client = MemForest(services).client
        self._session = session
        self._asker = asker
        self._seed = seed
        self._begun = begun
        self.heard: Counter[str] = Counter()
        """How often a turn was refused for now, by message."""

    def write(self, kind: str) -> list[list[str]]:
        """Ids of the turns that were accepted, in the order of their commits: of each thread, or the transaction."""
        if kind == LATE:
            return [self._late()]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self._appended, range(THREADS)))

    def _appended(self, thread: int) -> list[str]:
        pauses = random.Random(f"{self._seed}/{thread}")
        name, owner = self._session
        accepted: list[str] = []
        last = False
        while not last:
            over = self._has("done", "refused") or self._begun.with_suffix(OVER).exists()
            last = over and len(accepted) >= FEWEST
            if last or len(accepted) < MOST:
                id_ = f"item{thread}x{len(accepted)}"
                self._until_accepted(partial(self._client.append, owner, name, extra_turn(id_)))
                accepted.append(id_)
                self._begun.touch()
            time.sleep(pauses.random() * PAUSE_S)
        return accepted

    def _late(self) -> list[str]:
        """The transaction begins before the operation is requested, and commits once it is under way."""
        name, owner = self._session
        ids = ["item9x0", "item9x1"]
        turns = [*_EARLIER[self._session], *map(extra_turn, ids)]
        # The caller's own engine: how long a transaction may do nothing is for the caller to say.
        own = sa.create_engine(self._services.settings.database.url.get_secret_value(), poolclass=sa.NullPool)
        with own.connect() as connection, connection.begin():
            self._client.enqueue(owner, name, turns, transaction=connection)
            pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
            self._begun.touch()
            with own.connect() as other:
                while not (self._has("requested") or other.scalar(_BLOCKED_BY, {"pid": pid})):
                    time.sleep(POLL_S)
            time.sleep(random.Random(self._seed).random() * LATE_S)
        return ids

    def _until_accepted(self, call: Callable[[], object]) -> None:
        """A caller's call, retried for as long as it is refused for now. Anything else ends this process."""
        for _ in range(TRIES):
            try:
                call()
            except (QuotaExceeded, RetryableError) as error:
                self.heard[error.message] += 1
                time.sleep(POLL_S)
            else:
                return
        raise AssertionError(f"a turn is never accepted, heard: {dict(self.heard)}")

    def _has(self, *outcomes: str) -> bool:
        entries = self._services.operations.audit(TenantId(self._services.settings.tenant))
        return any(entry.actor == self._asker and entry.outcome in outcomes for entry in entries)


def wrong_turns(operation: str, state: State, accepted: Sequence[Sequence[str]]) -> list[str]:
    """How the end differs from what must be: each accepted turn is stored once, whole and with a fact, or was deleted
    together with all turns before it; no session has a gap; nothing is left of what is deleted."""
    turns = [json.loads(line) for line in state["turn"]]
    facts = " ".join(json.loads(line)["text"] for line in state["fact"])
    contents: dict[str, list[str]] = {id_: [] for ids in accepted for id_ in ids}
    ordinals: dict[str, list[int]] = {}
    found = []
    for turn in turns:
        contents.get(turn["external_id"], []).append(turn["content"])
        ordinals.setdefault(turn["session_id"], []).append(turn["ordinal"])
        if turn["external_id"] not in contents and turn["session_id"].startswith(_DELETED.get(operation, "nothing")):
            found.append(f"not deleted: turn {turn['ordinal']} of {turn['session_id']}")
    found += [f"gaps in {name}: {sorted(at)}" for name, at in ordinals.items() if sorted(at) != list(range(len(at)))]
    for ids in accepted:
        gone = [not contents[id_] for id_ in ids]
        if any(gone) and (operation not in _DELETED or gone != sorted(gone, reverse=True)):
            found.append(f"lost: {[id_ for id_ in ids if not contents[id_]]} of {len(ids)}")
    for id_, stored in contents.items():
        if stored not in ([], [extra_turn(id_)["content"]]):
            found.append(f"stored otherwise: {id_} as {stored}")
        # A policy with a budget of facts deletes some of them.
        if (f"{id_} " in facts) != bool(stored) and operation != "retain":
            found.append(f"{id_} is stored {len(stored)} times, and {'in no fact' if stored else 'in a fact'}")
    return found
