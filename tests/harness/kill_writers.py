"""Turns that are added to a session during an operation, and what must be there of them when all has come to rest."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from memforest_core.client.api import MemForest
from memforest_core.client.services.service import Services
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.errors import QuotaExceeded, RetryableError
from tests.harness.end_state import State
from tests.harness.grown_forests import BOB, DAY_S, KYOTO, MONDAY, PHONE, PHONE_KYOTO
from tests.harness.sayings import said

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
                while not (self._has("asked") or other.scalar(_BLOCKED_BY, {"pid": pid})):
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
