"""The command line as a shell sees it: real processes, their output, their exit codes, and what they leave behind.
Where a test is about what a command prints, the command runs in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from memforest_core.cli import demo_data
from memforest_core.cli.demo_data import load_conversation, load_expected, load_questions
from memforest_core.cli.program import app
from tests.harness.processes import MEMFOREST, announcement, deployment, environment, program
from tests.harness.servers import SessionServers
from tests.harness.timing import until

DEMO_LIMIT_S = 90.0
UP = ("up", "--no-serve", "--json")
READY_S = 40.0
STOP_S = 25.0


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one object."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def error(self) -> dict[str, str]:
        """The error that it reported to a program."""
        found: dict[str, str] = json.loads(self.err.splitlines()[-1])["error"]
        return found


def run(*arguments: str, stdin: str | None = None, **variables: str) -> Ended:
    """Run a command in this process, without settings but these."""
    none = {name: None for name in os.environ if name.startswith("MEMFOREST_")}
    done = CliRunner().invoke(app, arguments, input=stdin, env={**none, **variables})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


def memforest(*arguments: str, **variables: str) -> Ended:
    """Run a command to its end as a process, without settings but these."""
    done = subprocess.run(
        [*MEMFOREST, *arguments], capture_output=True, text=True, env=environment(**variables), timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def processes_of(directory: Path) -> list[psutil.Process]:
    """Running processes that were started in a data directory, or with its path."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if any(str(directory) in part for part in [process.info["cwd"] or "", *(process.info["cmdline"] or ())])
    ]


@dataclass(frozen=True)
class Remembered:
    """A data directory with the demo's conversation, and the demo's report."""

    directory: Path
    demo: Ended
    took_s: float

    @property
    def data(self) -> Sequence[str]:
        return ("--data", str(self.directory))


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Remembered:
    """The demo, run once; later commands work on what it left."""
    directory = tmp_path_factory.mktemp("memory") / "data"
    started = time.monotonic()
    ended = memforest("demo", "--json", "--data", str(directory))
    return Remembered(directory, ended, time.monotonic() - started)


@dataclass(frozen=True)
class Node:
    """A node in the foreground: its process, its directory, and the settings that lead to it."""

    pid: int
    directory: Path
    addresses: dict[str, str]


@pytest.fixture(scope="module")
def node(remembered: Remembered) -> Iterator[Node]:
    """A node in the foreground over what the demo left."""
    with program(*MEMFOREST, *UP, *remembered.data) as process:
        yield Node(process.pid, remembered.directory, announcement(process)["environment"])


@pytest.fixture
def addresses(node: Node) -> dict[str, str]:
    """The settings that lead to the node."""
    return node.addresses


def test_the_demo_runs_without_settings_in_time(remembered: Remembered) -> None:
    """Given nothing, when the demo runs, then every stage is complete, all expectations hold, and it took less than 90
    seconds."""
    report = remembered.demo.json
    assert remembered.took_s < DEMO_LIMIT_S
    assert (remembered.demo.code, report["ok"], report["differences"]) == (0, True, [])
    assert [answer["question"] for answer in report["questions"] if answer["found"]] == [
        requested.question for requested in load_questions()
    ]
    for name, stage in report["stages"].items():
        assert stage["done"] == stage["of"] > 0, name
        assert report["seconds"][name] >= 0
    sessions = load_conversation()
    assert report["totals"]["sessions"] == len(sessions)
    assert report["totals"]["turns"] == sum(len(session.turns) for session in sessions)
    assert report["totals"]["facts"] > 0
    assert set(report["totals"]["cells"]) == {"placed"}
    assert report["recall_p50_ms"]["total"] > 0
    assert processes_of(remembered.directory) == []


def test_the_demo_fails_and_names_what_is_not_as_expected(
    remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given expectations made wrong, when the demo runs again on its memory, then it fails and names each line."""
    wrong = {
        "residence: Boston | ended by Davis": "residence: Boston | current",
        "diet: not coffee": "diet: coffee",
        "Bob is allergic to shellfish.": "Bob is allergic to nuts.",
    }
    expected = load_expected()
    for right, changed in wrong.items():
        expected = {name: [line.replace(right, changed) for line in lines] for name, lines in expected.items()}
    monkeypatch.setattr(demo_data, "load_expected", lambda: expected)
    ended = run("demo", *remembered.data)

    named = [line for line in ended.out.splitlines() if line.startswith("✗")]
    assert ended.code == 1
    assert len(named) == 2 * len(wrong)
    for right, changed in wrong.items():
        assert [line for line in named if ", missing: " in line and changed in line], changed
        assert [line for line in named if ", not expected: " in line and right in line], right


def test_recall_reads_well(remembered: Remembered) -> None:
    ended = memforest(
        "recall", "Where does Bob live now?", "--owner", "bob", "--mode", "flat", "--k", "2", "--why", *remembered.data
    )
    assert ended.code == 0
    assert ended.out.startswith("  1. ")
    assert "session chat-" in ended.out
    assert "by flat recall" in ended.out


@pytest.mark.parametrize(
    "arguments, code",
    [
        (("recall", "", "--owner", "bob"), "empty_question"),
        (("recall", "Where?", "--owner", "bob", "--k", "0"), "invalid_k"),
        (("recall", "Where?", "--owner", "bob", "--mode", "psychic"), "invalid_mode"),
        (("tree", "nobody"), "not_found"),
        (("tree", "bob", "no such tree"), "not_found"),
        (("status", "no such session", "--owner", "bob"), "not_found"),
    ],
)
def test_bad_questions_end_with_2(addresses: dict[str, str], arguments: tuple[str, ...], code: str) -> None:
    ended = run(*arguments, "--json", **addresses)
    assert (ended.code, ended.out, ended.error["code"]) == (2, "", code)


def test_trees_are_listed_and_drawn(addresses: dict[str, str]) -> None:
    """Given an owner's trees, when one is drawn by its label, then root, summaries and every leaf are there."""
    listed = run("tree", "bob", "--json", **addresses).json["trees"]
    assert {tree["label"] for tree in listed if tree["kind"] == "session"} >= {
        each.session_id for each in load_conversation()
    }
    grown = run("tree", "bob", "entity:bob", "--json", **addresses).json
    (root,) = [node for node in grown["nodes"] if node["parent_id"] is None]
    assert root["level"] == grown["tree"]["height"]
    assert root["leaves"] == sum(node["level"] == 0 for node in grown["nodes"]) == grown["tree"]["leaves"]
    assert all(node["text"] and node["source"] and not node["dirty"] for node in grown["nodes"])
    drawn = run("tree", "bob", "entity:bob", "--depth", "1", **addresses).out.splitlines()
    assert len(drawn) == 2
    assert f"{root['leaves']} leaves" in drawn[1]


def test_status_describes_a_session(addresses: dict[str, str]) -> None:
    session = load_conversation()[0]
    progress = run("status", session.session_id, "--owner", "bob", "--json", **addresses).json
    assert (progress["stage"], progress["coverage"], progress["dead"]) == ("summaries", 1.0, 0)
    assert progress["turns"] == len(session.turns)


def test_a_reader_that_closes_the_pipe_is_no_error(addresses: dict[str, str]) -> None:
    """Given more output than fits in a pipe, when its reader closes it, then the command ends quietly."""
    with program(*MEMFOREST, "tree", "bob", "--json", **addresses) as tree:
        tree.stdout.close()
        assert tree.wait(READY_S) == 141
        assert tree.stderr.read() == ""


LINES = [
    {
        "owner": "zoe",
        "session_id": f"s{number}",
        "turns": [
            {"role": "user", "content": f"I bought {number + 2} kayaks in Oslo.", "timestamp": 1_700_000_000 + number},
            {"role": "assistant", "content": "Enjoy the water.", "timestamp": 1_700_000_060 + number},
        ],
    }
    for number in range(4)
]


def test_ingest_can_be_run_again(remembered: Remembered, tmp_path: Path) -> None:
    """Given a file of sessions, when it is handed over twice, then the second time nothing is new."""
    file = tmp_path / "sessions.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in LINES) + "\n\n")
    first = run("ingest", str(file), *remembered.data, "--json")
    assert first.code == 0
    assert (first.json["accepted"], first.json["new_turns"], first.json["waited"]) == (4, 8, "summaries")
    repeated = run("ingest", str(file), *remembered.data)
    assert repeated.code == 0
    assert "0 sessions accepted (0 new turns), 4 unchanged, 0 failed." in repeated.out


def test_a_bad_line_is_named_and_the_others_go_on(addresses: dict[str, str]) -> None:
    lines = [
        json.dumps(LINES[0] | {"owner": "eve"}),
        "nonsense",
        json.dumps({"owner": "eve", "session_id": "empty", "turns": []}),
        json.dumps({"session_id": "s9", "turns": LINES[1]["turns"]}),
        json.dumps(LINES[0] | {"owner": "eve", "turns": LINES[1]["turns"]}),
        json.dumps(LINES[2] | {"owner": "eve"}),
    ]
    ended = run(
        "ingest", "-", "--owner", "ann", "--wait", "raw", "--live", "--json", stdin="\n".join(lines), **addresses
    )
    assert ended.code == 2
    report = ended.json
    assert (report["accepted"], report["failed"]) == (3, 3)
    assert [(error["line"], error["code"]) for error in report["errors"]] == [
        (2, "invalid_line"),
        (3, "empty_session"),
        (5, "session_conflict"),
    ]


def test_a_second_node_says_which_process_has_the_directory(node: Node) -> None:
    second = memforest("up", "--data", str(node.directory), "--json")
    assert (second.code, second.error["code"]) == (2, "data_directory_in_use")
    assert str(node.pid) in second.error["message"]


def test_other_processes_recall_with_vectors_while_a_node_runs(node: Node) -> None:
    """Given a node in the foreground, when others ask by its directory or by its addresses, then vectors take part."""
    requested = ("recall", "Where did Bob live before moving to Miami?", "--owner", "bob", "--json")
    by_directory = run(*requested, "--data", str(node.directory)).json
    by_addresses = run(*requested, **node.addresses).json
    for result in (by_directory, by_addresses):
        assert result["degraded"] == []
        assert result["round_trips"] > 0
        assert any("Davis" in piece["text"] for piece in result["evidence"])
    assert [piece["text"] for piece in by_directory["evidence"]] == [
        piece["text"] for piece in by_addresses["evidence"]
    ]


def test_verify_compares_both_stores_while_a_node_runs(node: Node) -> None:
    report = run("verify", "--data", str(node.directory), "--json")
    assert report.code == 0, report.err
    assert (report.json["violations"], report.json["complete"]) == (0, True)


def test_doctor_finds_a_running_node_well(node: Node) -> None:
    for ended in (run("doctor", "--data", str(node.directory), "--json"), run("doctor", "--json", **node.addresses)):
        assert ended.code == 0, ended.out
        assert ended.json["ok"] is True
        assert {check["state"] for check in ended.json["checks"]} == {"ok"}
    lines = run("doctor", **node.addresses).out.splitlines()
    assert "ok    workers of extract: 1 alive" in lines
    assert len(lines) == len(ended.json["checks"])


def test_doctor_says_what_a_mistyped_variable_should_be(tmp_path: Path) -> None:
    ended = run("doctor", MEMFOREST_LLM_MODEL="openai/m")
    assert (ended.code, ended.out.strip()) == (
        1,
        "fail  settings: MEMFOREST_LLM_MODEL is no setting: did you mean MEMFOREST_LLM__MODEL? [invalid_settings]",
    )
    nothing = run("doctor", "--data", str(tmp_path))
    assert nothing.code == 1
    assert "memforest up" in nothing.out


def test_the_addresses_of_a_node_are_for_its_user_alone(node: Node) -> None:
    assert (node.directory / "node.json").stat().st_mode & 0o777 == 0o600


def test_a_sentence_says_that_an_owner_has_no_memory(node: Node) -> None:
    for command in (("recall", "Where?", "--owner", "nobody"), ("timeline", "--owner", "nobody")):
        ended = run(*command, **node.addresses)
        assert (ended.code, ended.out.strip()) == (
            0,
            "nobody has no memory yet: memforest ingest stores a conversation.",
        )
        assert run(*command, "--json", **node.addresses).json["owner_known"] is False


@pytest.mark.parametrize("command", ["timeline", "sessions", "profile", "tree"])
def test_an_owner_with_a_similar_name_is_named(node: Node, command: str) -> None:
    owner = ("Bobb",) if command == "tree" else ("--owner", "Bobb")
    ended = run(command, *owner, **node.addresses)
    assert "id you mean bob?" in ended.out + ended.err
    assert "did you mean" not in run(command, *owner, "--json", **node.addresses).out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_on_a_signal_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Given a node in the foreground, when it gets a signal to stop, then it ends with 0 and so do its servers."""
    with program(*MEMFOREST, *UP, "--data", tmp_path / "data") as process:
        announced = announcement(process)
        servers = psutil.Process(process.pid).children(recursive=True)
        assert announced["pid"] == process.pid
        assert servers
        process.send_signal(number)
        assert process.wait(STOP_S) == 0
        reported = process.stderr.read().splitlines()
    assert len(reported) == 1
    assert "chat offline, embedding all-minilm-l6-v2-int8, index in " in reported[0]
    assert not any(server.is_running() for server in servers)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_start_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with program(*MEMFOREST, "up", "--data", tmp_path / "data") as process:
        until(lambda: psutil.Process(process.pid).children(), READY_S)
        process.send_signal(number)
        assert process.wait(STOP_S) == code
        assert process.stderr.read() == ""
    assert processes_of(tmp_path) == []


UNREACHABLE = {
    "MEMFOREST_DATABASE__URL": "postgresql+psycopg://app@127.0.0.1:1/none",
    "MEMFOREST_BROKER__URL": "redis://127.0.0.1:1/0",
    "MEMFOREST_INDEX__URL": "http://127.0.0.1:1",
}


UNREACHED = ("status", "recall Where? -o bob", "db upgrade", "db current", "tree bob")


def test_an_unreachable_database_is_one_sentence() -> None:
    for ended in (memforest("worker", **UNREACHABLE), *(run(*each.split(), **UNREACHABLE) for each in UNREACHED)):
        assert ended.code == 2
        assert "MEMFOREST_DATABASE__URL" in ended.err
        assert len(ended.err.splitlines()) == 1


def test_a_missing_model_key_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a hosted model without its key, when the demo runs, then it says what to set instead of waiting."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ended = run(*("demo", "--data", str(tmp_path / "data"), "--json"), MEMFOREST_LLM__MODEL="openai/gpt-4o-mini")
    assert (ended.code, ended.error["code"]) == (2, "model_auth_failed")
    assert "MEMFOREST_LLM__API_KEY" in ended.error["message"]


def test_a_worker_finishes_what_is_under_way_and_leaves(servers: SessionServers, tmp_path: Path) -> None:
    """Given calls under way, when the worker gets SIGTERM, then they end well and no new work is started."""
    health = tmp_path / "health"
    with deployment(servers, tmp_path, latency_s=0.5, MEMFOREST_WORKER__HEALTH_FILE=str(health)) as running:
        process = running.start_worker(concurrency=2)
        client = running.client()
        for line in LINES * 20:
            client.enqueue("zoe", f"{line['session_id']}-{time.monotonic_ns()}", line["turns"])
        until(
            lambda: running.scalar("SELECT count(*) FROM memforest.cell WHERE state = 'running'"),
            READY_S,
            running.log_tail,
        )
        client.close()
        until(health.exists, READY_S, running.log_tail)
        assert memforest("worker-health", **running.variables).code == 0
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(STOP_S) == 0, running.log_tail()
        assert running.scalar("SELECT count(*) FROM memforest.worker") == 0
        assert running.scalar("SELECT count(*) FROM memforest.cell WHERE state = 'running'") == 0
        assert running.scalar("SELECT count(*) FROM memforest.cell WHERE state = 'ready'") > 0
        assert running.scalar("SELECT coalesce(sum(lost_leases), 0) FROM memforest.cell") == 0
        for logged in running.log_tail().splitlines():
            assert "kayak" not in json.dumps(json.loads(logged))
