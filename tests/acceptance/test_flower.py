"""A node's Flower while sessions flow: it shows ids, and nothing that was said."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from memforest_core.client.producer import MemForestClient
from memforest_core.work.messages import TASK_NAMES, Queue
from memforest_workers.runtime import TASKS
from tests.harness.processes import MEMFOREST, announcement, next_line, program, settings_from
from tests.harness.timing import until

STOP_S = 30.0
SEEN_S = 60.0
FOLLOWS_S = 30.0
OWNER = "nadia"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CAUSES = {"", "wait", "reconciler"}
"""What a wake-up may name instead of an id."""

SAID = (
    "My sister Wilhelmina keeps eleven axolotls in Quetzalbruck.",
    "Her locker code is marzipan-4711, she told me on Tuesday.",
    "I moved from Quetzalbruck to Zwetschgenau in March.",
    "Do axolotls eat zabaglione?",
)
PLANTED = ("wilhelmina", "axolotl", "quetzalbruck", "marzipan", "zwetschgenau", "zabaglione")
"""Words of what is said, and of every fact and summary that comes of it."""

API = (
    "api/workers?refresh=1",
    "api/tasks?limit=10000",
    "api/task/types",
    "api/queues/length",
    "workers?json=1",
    "metrics",
)


@dataclass
class Node:
    """A node in the foreground with its page."""

    process: subprocess.Popen[str]
    announced: dict[str, Any]

    @property
    def address(self) -> str:
        address: str = self.announced["flower"]
        return address

    @property
    def flower(self) -> psutil.Process:
        """The process behind the page."""
        (found,) = (
            child
            for child in psutil.Process(self.process.pid).children()
            if "memforest_workers.flower" in child.cmdline()
        )
        return found

    def client(self) -> MemForestClient:
        return MemForestClient(settings_from(self.announced["environment"]))

    def fetched(self, path: str) -> str:
        """A page, or what a program reads."""
        with urllib.request.urlopen(f"{self.address}/{path}", timeout=20) as answer:
            text: str = answer.read().decode()
        return text


@contextmanager
def up(directory: Path, port: str = "0", **variables: str) -> Iterator[Node]:
    """A running node with Flower; whatever is left of it afterwards is killed."""
    command = (*MEMFOREST, "up", "--data", directory, "--flower", "--no-serve", "--json", "--flower-port", port)
    family: list[psutil.Process] = []
    with program(*command, **variables) as process:
        node = Node(process, announcement(process))
        family = psutil.Process(process.pid).children(recursive=True)
        yield node
    for child in family:
        if child.is_running():
            child.kill()


def ended(process: psutil.Process) -> bool:
    """Whether it is gone, or only waits for somebody to take note."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@contextmanager
def sessions_flowing(node: Node) -> Iterator[None]:
    """Sessions are handed over one after the other, and each is waited for."""
    stop = threading.Event()

    def hand_over() -> int:
        number = 0
        with node.client() as client:
            while not stop.is_set():
                turns = [
                    {"role": "user", "content": text, "timestamp": 1_700_000_000 + 600 * number + second}
                    for second, text in enumerate(SAID)
                ]
                client.enqueue(OWNER, f"s-{number}", turns).wait("summaries")
                number += 1
        return number

    with ThreadPoolExecutor(1) as pool:
        flowing = pool.submit(hand_over)
        try:
            yield
        finally:
            stop.set()
        assert flowing.result(STOP_S) > 0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that sessions flow into while its pages are looked at. Flower's API is open, to be looked at as well."""
    directory = tmp_path_factory.mktemp("node") / "data"
    with up(directory, FLOWER_UNAUTHENTICATED_API="true") as running:
        # Before Flower hears the worker, what the worker says is lost on it.
        until(lambda: any(row["status"] for row in json.loads(running.fetched("workers?json=1"))["data"]), SEEN_S)
        with sessions_flowing(running):
            named = set(TASK_NAMES.values())
            until(lambda: set(json.loads(running.fetched("api/task/types"))["task-types"]) == named, SEEN_S)
            yield running


@pytest.mark.parametrize("queue", list(Queue))
def test_a_task_carries_ids_only(node: Node, queue: Queue) -> None:
    """Given tasks of each queue that ended well, then each carries a tenant and an id."""

    def succeeded() -> list[dict[str, Any]]:
        tasks = json.loads(node.fetched(f"api/tasks?limit=10000&taskname={TASK_NAMES[queue]}")).values()
        return [task for task in tasks if task["state"] == "SUCCESS"]

    for task in until(succeeded, SEEN_S):
        carried = ast.literal_eval(task["kwargs"])
        assert (task["name"], task["args"], carried["tenant"]) == (f"memforest.{queue.value}.v1", "()", "default")
        assert set(carried) == {"tenant", "ref"}
        assert carried["ref"] in CAUSES or UUID.fullmatch(carried["ref"])
        assert re.fullmatch(rf"'\d+ {TASKS[queue][1]}'", task["result"])


def test_no_page_says_what_was_said(node: Node) -> None:
    """Given its pages while sessions flow, then no word of a conversation is in any of them."""
    tasks = [f"task/{task}" for task in list(json.loads(node.fetched("api/tasks?limit=20")))]
    for path in ("workers", "tasks", "broker", "worker/embedded@localhost", *tasks):
        page = node.fetched(path)
        assert "Flower" in page, path
        assert [word for word in PLANTED if word in page.lower()] == [], path


def test_no_answer_to_a_program_says_what_was_said(node: Node) -> None:
    """Given the API and the metrics, then they tell of many tasks, and carry no word of a conversation either."""
    texts = {path: node.fetched(path) for path in API}
    tasks = json.loads(texts["api/tasks?limit=10000"])
    # The name comes with a task's first event: of one that already ran when Flower began to listen, only the end is heard.
    begun = [task for task in tasks.values() if task["sent"] or task["received"]]
    assert {task["name"] for task in begun} == set(TASK_NAMES.values())
    assert all(task["exception"] is None and task["traceback"] is None for task in tasks.values())
    texts |= {f"api/task/info/{task}": node.fetched(f"api/task/info/{task}") for task in list(tasks)[:20]}
    for path, text in texts.items():
        assert [word for word in PLANTED if word in text.lower()] == [], path


def test_the_page_is_for_looking(node: Node) -> None:
    """Given the page, then nobody can stop the worker or start a task through it."""
    for path in ("api/worker/shutdown/embedded@localhost", f"api/task/send-task/{TASK_NAMES[Queue.EXTRACT]}"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{node.address}/{path}", data=b"{}", timeout=20)
        assert refused.value.code == 403


def test_the_page_is_for_this_machine(node: Node) -> None:
    """Given the page, then it listens on the loopback address alone."""
    listening = [conn.laddr.ip for conn in node.flower.net_connections("inet") if conn.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


def test_a_page_that_ends_is_said_once_and_the_node_goes_on(tmp_path: Path) -> None:
    """Given a node whose Flower was killed, then it says so, takes sessions, and stops as ever."""
    with up(tmp_path / "data") as node:
        node.flower.kill()
        with node.client() as client:
            client.enqueue(OWNER, "s-1", [{"role": "user", "content": SAID[0]}]).wait("facts")
        assert next_line(node.process, errors=True).startswith("memforest: Working with chat offline")
        message = f"Flower ended (exit -9), see {tmp_path}/data/logs/flower.log. The node goes on.\n"
        assert next_line(node.process, errors=True) == message
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(STOP_S) == 0
        assert node.process.stderr is not None
        assert node.process.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_page_ends_with_the_node(tmp_path: Path, number: signal.Signals) -> None:
    """Given a node with its page, when it gets a signal to stop, or is killed, then the page is gone as well."""
    with up(tmp_path / "data") as node:
        flower = node.flower
        os.kill(node.process.pid, number)
        assert node.process.wait(STOP_S) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
        until(lambda: ended(flower), FOLLOWS_S)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    """Given another program on the port, then the node does not start, and says which port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = (*MEMFOREST, "up", "--data", tmp_path / "data", "--flower", "--no-serve", "--json")
        with program(*command, "--flower-port", port) as process:
            out, err = process.communicate(timeout=SEEN_S)
    assert (process.returncode, out) == (2, "")
    error = json.loads(err)["error"]
    assert error["code"] == "port_refused"
    assert port in error["message"] and "--flower-port" in error["message"]
