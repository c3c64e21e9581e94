"""The library as its users write it: the README's example, the artifact's quick start, the async facade."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memforest_core import MemForest
from memforest_core.client.artifact import MemForest as ArtifactMemForest
from memforest_core.client.artifact import load_default_config
from memforest_core.client.embedded.directory import DataDirectoryInUse, UsedAfterFork
from memforest_core.errors import InvalidInput
from memforest_core.settings import load_settings

MOVES = [
    {"role": "user", "content": "Bob moved from Boston to Davis in May 2023.", "timestamp": "2023-05-01T00:00:00Z"},
    {"role": "user", "content": "Bob moved from Davis to Miami in July 2024.", "timestamp": "2024-07-01T00:00:00Z"},
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def memory(directory: Path) -> Iterator[MemForest]:
    with MemForest.embedded(directory) as running:
        running.ingest("bob", "s1", MOVES, wait="facts")
        yield running


def test_the_artifacts_quick_start_runs_with_other_imports(tmp_path: Path) -> None:
    config = load_default_config()
    assert load_default_config("default_4b", tenant="mine") == load_default_config(tenant="mine")
    forest = ArtifactMemForest(tmp_path, config=config)
    try:
        forest.register_user("alice")
        forest.ingest_session("alice", "sess_001", MOVES)
        result = forest.query("alice", "Where did Bob live before moving to Miami?")
        assert any("Davis" in fact.text for fact in result.top_facts)
        forest.save("alice")
        sent = {"user_id": "carl", "session_id": "s1", "turns": MOVES}
        for bad in ({"user_id": 7}, {"session_id": " "}, {"turns": "text"}, {"turns": ["text"]}):
            with pytest.raises(InvalidInput):
                forest.ingest_parallel([sent, {**sent, **bad}])
        assert not forest.query("carl", "Where did Bob move in May?").recalled.owner_known
        forest.ingest_parallel(
            [
                {"user_id": "alice", "session_id": "s1", "turns": MOVES[:1]},
                {"user_id": "bob", "session_id": "s1", "turns": MOVES[1:]},
            ]
        )
        answers = forest.query_parallel(
            [
                {"user_id": "alice", "question": "Where did Bob move in May?"},
                {"user_id": "bob", "question": "Where did Bob move in July?"},
            ]
        )
        assert "Davis" in answers[0].top_facts[0].text
        assert "Miami" in answers[1].top_facts[0].text
    finally:
        forest.close()


def test_a_second_owner_of_a_directory_is_refused(memory: MemForest, directory: Path) -> None:
    with pytest.raises(DataDirectoryInUse, match=str(os.getpid())):
        MemForest.embedded(directory)
    other = subprocess.run(
        [sys.executable, "-c", f"from memforest_core import MemForest; MemForest.embedded({str(directory)!r})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode != 0
    assert "DataDirectoryInUse" in other.stderr


def test_the_library_prints_nothing_of_its_own(tmp_path: Path) -> None:
    script = f"from memforest_core import MemForest\nwith MemForest.embedded({str(tmp_path)!r}): print('mine')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("mine\n", "")


def test_a_forked_child_may_not_use_the_parents_memory(memory: MemForest) -> None:
    assert memory.recall("bob", "Where?").evidence
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            memory.recall("bob", "Where?")
            os.write(writer, b"used")
        except UsedAfterFork:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"refused"


OWNER = """
import sys, time
from memforest_core import MemForest
from memforest_core.settings import load_settings
memory = MemForest.embedded(sys.argv[1], load_settings(worker={"heartbeat_s": 0.5, "dead_after_s": 2.0}))
memory.ingest("alice", "s1", [{"role": "user", "content": f"Box {n} holds {n} books.",
    "timestamp": 1700000000 + n} for n in range(60)])
print("accepted", flush=True)
time.sleep(60)
"""


def test_what_was_accepted_before_kill_9_is_there_after_the_next_start(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    while owner.stdout.readline().strip() != "accepted":
        assert owner.poll() is None
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    started = time.monotonic()
    # What the killed process was at is free once it counts as dead: sooner here than by default.
    with MemForest.embedded(tmp_path, load_settings(worker={"heartbeat_s": 0.5, "dead_after_s": 2.0})) as memory:
        memory.flush("alice", timeout_s=60)
        progress = memory.status("alice", "s1")
        assert progress.placed == progress.cells == 30
        assert time.monotonic() - started < 60
