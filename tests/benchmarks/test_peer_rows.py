"""A peer as a baseline: it is told a cut's texts over the wire, and what it orders is delivered as our own texts are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from benchmarks.eval.corpora import Corpora, Cut
from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.peer_rows import PEERS, Opened, Peer, places, present, sessions
from benchmarks.peers import systems
from benchmarks.peers.systems import ChildSystem, PeerAway

MONDAY = datetime(2024, 1, 1, 9, tzinfo=UTC)


def conversation(*texts: str, name: str = "c") -> Conversation:
    """A session of its own for every two texts, all said by Ada."""
    turns = [Turn(f"t{number}", "Ada", text) for number, text in enumerate(texts)]
    told = [Session(f"s{first}", MONDAY, tuple(turns[first : first + 2])) for first in range(0, len(turns), 2)]
    return Conversation(name, tuple(told), ())


def corpora() -> Corpora:
    return Corpora(lambda _: [], lambda texts: np.zeros((len(texts), 1), dtype=np.float32), UTC)


def asked(text: str = "Which?") -> Question:
    return Question("q", text, "any", ("t0",), "")


def fake(directory: Path, *arguments: str) -> Opened:
    """A memory in a child process that reverses what it was told."""

    @contextmanager
    def opened() -> Iterator[ChildSystem]:
        system = ChildSystem(sys.executable, "tests.benchmarks.fake_peer", arguments, directory / "log")
        system.start()
        yield system
        system.stop()

    return opened


def test_what_a_peer_orders_is_delivered_in_its_order_without_dates(tmp_path: Path) -> None:
    """Given a peer that puts the last text first, when asked, then turns come in that order, timed by its own clock."""
    peer = Peer("fake", Cut.TURNS, corpora(), fake(tmp_path))
    got = peer.ask(conversation("one", "two", "three"), asked())
    peer.close()
    assert [item.turn_ids for item in got.items] == [("t2",), ("t1",), ("t0",)]
    assert (got.items[0].text, got.items[0].time_label) == ("Ada: three", "Monday 1 January 2024")
    assert got.ms is not None and 0 < got.ms < 10_000


def test_a_conversation_is_told_once_and_apart_from_others(tmp_path: Path) -> None:
    peer = Peer("fake", Cut.CELLS, corpora(), fake(tmp_path))
    first, second = conversation("one", "two"), conversation("other", name="d")
    found = [peer.ask(one, asked()).items for one in (first, second, first)]
    peer.close()
    assert [[item.text for item in items] for items in found] == [
        ["Ada: one\nAda: two"],
        ["Ada: other"],
        ["Ada: one\nAda: two"],
    ]


def test_a_text_that_was_never_told_is_no_evidence(tmp_path: Path) -> None:
    peer = Peer("fake", Cut.TURNS, corpora(), fake(tmp_path, "a summary"))
    with pytest.raises(PeerAway, match="was not told: 'a summary'"):
        peer.ask(conversation("one"), asked())
    peer.close()


def test_a_peer_that_ends_says_its_last_line(tmp_path: Path) -> None:
    peer = Peer("fake", Cut.TURNS, corpora(), fake(tmp_path))
    with pytest.raises(PeerAway, match="killed by its question"):
        peer.ask(conversation("one"), asked("die"))
    peer.close()


def test_sessions_keep_their_texts_together() -> None:
    told = sessions("c", corpora().of(conversation("one", "two", "three"), Cut.TURNS))
    assert [(one.session_id, len(one.turns)) for one in told] == [("s0", 2), ("s2", 1)]
    assert told[1].turns[0]["content"].endswith("Ada: three")


def test_equal_texts_are_found_once_each() -> None:
    """Given the same words twice on one day, when both come back, then both turns are delivered, and a third is not."""
    corpus = corpora().of(conversation("Thanks!", "Thanks!"), Cut.TURNS)
    text = corpus.texts[0].text
    assert places([text, text, text], corpus) == [0, 1]


def test_a_peer_without_its_environment_is_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(systems, "ENVIRONMENTS", tmp_path)
    assert present(["bm25_turns", *PEERS, "memforest"]) == ["bm25_turns", "memforest"]
    said = capsys.readouterr().err
    assert said.startswith("mem0_turns is left out: mem0 is not installed in ")
    assert said.count("\n") == 1
