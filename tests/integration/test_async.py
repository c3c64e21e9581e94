"""Async programs on a real store: any number of waits leaves the other calls as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from memforest_core import AsyncMemForest
from memforest_core.models.calls import Embedder
from memforest_core.work.waiting import WaitTimeout
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

TURN = {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"}
WAITS = 50


@pytest.fixture
def patient(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """A stack whose appended turns wait for an hour for the second turn of their cell."""
    with stack(servers, tmp_path, embedder=embedder, accept={"quiet_s": 3_600.0}) as running:
        yield running


def test_fifty_waiting_appends_leave_recall_as_it_is(patient: Stack) -> None:
    """Given fifty appends that wait for facts and no worker, when recall is called, then it answers; when the work is
    done, all fifty end."""

    async def use() -> None:
        memory = AsyncMemForest(patient.memory, threads=2)
        waits = [
            asyncio.create_task(memory.append("bob", f"s-{number}", TURN, wait="facts", timeout_s=170.0))
            for number in range(WAITS)
        ]
        while (await memory.recall("bob", "Where does Bob live?", k=100)).evidence == ():
            assert not any(wait.done() for wait in waits)
        for _ in range(5):
            found = await memory.recall("bob", "Where does Bob live?")
            assert "Davis" in found.evidence[0].text
        assert not any(wait.done() for wait in waits)
        while not all(wait.done() for wait in waits):
            await asyncio.to_thread(patient.drive)
        assert {handle.session_id for handle in await asyncio.gather(*waits)} == {f"s-{n}" for n in range(WAITS)}

    asyncio.run(use())


def test_an_append_that_waits_closes_its_cell_and_one_that_does_not_leaves_it_open(patient: Stack) -> None:
    memory = patient.memory

    def states() -> list[str]:
        return [row[0] for row in patient.rows("SELECT state FROM memforest.cell ORDER BY session_id, ordinal")]

    memory.append("bob", "s", TURN | {"id": "1"})
    assert states() == ["held"]
    with pytest.raises(WaitTimeout):
        memory.append("bob", "s", TURN | {"id": "1"}, wait="raw", timeout_s=0.0)
    assert states() == ["held"]
    with pytest.raises(WaitTimeout):
        memory.append("bob", "s", TURN | {"id": "1"}, wait="facts", timeout_s=0.0)
    assert states() == ["ready"]
    memory.append("bob", "s", TURN | {"id": "2", "content": "I like it there."})
    assert states() == ["ready", "held"]
    patient.drive()
    assert states() == ["done", "held"]


def test_two_turns_of_one_cell_are_one_when_the_second_is_waited_for(patient: Stack) -> None:
    reply = TURN | {"role": "assistant", "content": "Nice."}
    patient.memory.append("bob", "s", TURN)
    with pytest.raises(WaitTimeout):
        patient.memory.append("bob", "s", reply, wait="facts", timeout_s=0.0)
    patient.drive()
    progress = patient.memory.status("bob", "s")
    assert (progress.turns, progress.cells, progress.placed) == (2, 1, 1)
