"""The soak's model: what must be known, what must be gone, and what may be either."""

from __future__ import annotations

import random
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak.acting import Chooser, Forget, Recall, Say
from benchmarks.soak.driving import Driver, Seen
from benchmarks.soak.known import Fate, Known, Session

CLEAN = {"clean": True, "left": {}}
ANNA, BERT, CARL = "owner-0", "owner-1", "owner-2"


@pytest.fixture
def known() -> Known:
    return Known(3, random.Random(7))


def begun(known: Known, owner: str, turns: int = 3) -> Say:
    session = known.session()
    return Say(known, owner, session, [known.say(session, owner) for _ in range(turns)])


def said(known: Known, owner: str, turns: int = 3) -> Session:
    saying = begun(known, owner, turns)
    assert saying.done({}) == []
    saying.end()
    return saying.session


def fates(session: Session) -> list[Fate]:
    return [each.fate for each in session.said]


def test_what_was_said_must_be_known_once_the_call_returned(known: Known) -> None:
    saying = begun(known, ANNA)
    assert fates(saying.session) == [Fate.EITHER] * 3
    saying.done({})
    assert fates(saying.session) == [Fate.KNOWN] * 3
    assert not saying.session.settled
    saying.end()
    assert saying.session.settled


def test_forgotten_turns_must_be_gone_and_no_others(known: Known) -> None:
    session = said(known, ANNA)
    forgetting = Forget(known, session, "forget-turns", {"session": session.id}, session.said[:1])
    assert forgetting.done(CLEAN) == []
    assert fates(session) == [Fate.GONE, Fate.KNOWN, Fate.KNOWN]
    assert session.said[0].word in known.planted() - known.allowed()


def test_recall_of_forgotten_words_is_a_finding(known: Known) -> None:
    session, other = said(known, ANNA), said(known, ANNA)
    Forget(known, session, "forget-session", {}, session.said).done(CLEAN)
    assert Recall(known, ANNA, other.said[0]).done({"words": [session.said[0].word]}) != []


class KilledOnce:
    """A caller whose process is killed at its first call; it answers later ones."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((action, arguments))
        return {"error": "killed", "again": True} if len(self.calls) == 1 else {"value": {"words": [], **CLEAN}}


def test_a_killed_callers_action_is_done_again_as_it_was(known: Known, tmp_path: Path) -> None:
    caller, log, seen = KilledOnce(), StringIO(), Seen()
    driver = Driver(known, Chooser(known, tmp_path), seen, log, 1.0)
    driver.act(caller, begun(known, ANNA), 1)  # type: ignore[arg-type]
    assert caller.calls[0] == caller.calls[1]
    assert seen.outcomes == {"ingest: killed": 1, "ingest: ok": 1}
    assert fates(known.sessions[0]) == [Fate.KNOWN] * 3
    assert log.getvalue().index('"with"') < log.getvalue().index('"came_to"')
