"""Data directories at paths that people choose, and a process that owns one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from memforest_core.client.embedded.servers import EmbeddedServers

REPOSITORY = Path(__file__).parents[3]


class Owner:
    """``owner.py`` in a process group of its own."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("owner.py")), str(directory), mode],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def reported(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the owner ended without a report"
        return dict(json.loads(line))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def interrupt_group(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """Close in order while that is possible; nothing of it is left in any case."""
        if self.process.poll() is None:
            self.interrupt_group()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can pass through."""
    directory = Path(tempfile.mkdtemp(prefix="memforest-place-"))
    directory.chmod(0o755)
    yield directory
    # What a failed test left running works inside the place; nothing else does.
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory):
                process.kill()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed, complete database cluster to copy: making one is most of a first start."""
    directory = tmp_path_factory.mktemp("cluster")
    EmbeddedServers.start(directory).close()
    return directory / "pg"


@pytest.fixture
def data(place: Path, cluster: Path) -> Path:
    """A data directory that has been in use before."""
    directory = place / "data"
    directory.mkdir(mode=0o700)
    shutil.copytree(cluster, directory / "pg")
    return directory


@pytest.fixture
def owner(place: Path) -> Iterator[Callable[[str], Owner]]:
    """Start a process that owns ``place/data``."""
    started: list[Owner] = []

    def start(mode: str) -> Owner:
        started.append(Owner(place / "data", mode))
        return started[-1]

    yield start
    for one in started:
        one.end()
