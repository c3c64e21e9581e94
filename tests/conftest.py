"""House rules for every test: its folder is its tier, nothing is skipped, and pure tests open no connection."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Generator, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psycopg
import pytest
import structlog

if TYPE_CHECKING:  # what servers need is not installed in the environment of the agent frameworks
    from tests.harness.servers import SessionServers

TESTS = Path(__file__).parent
TIERS = {
    "benchmarks": "the benchmarks themselves, at small sizes",
    "acceptance": "real worker processes, a model server over HTTP, kill -9",
    "integration": "real Postgres, Redis protocol and Qdrant engine",
    "migration": "the schema going up, and its drift from the models",
    "contract": "one suite per port, on every implementation",
    "property": "invariants under generated input, without any connection",
    "unit": "one module or file of the repository, without any connection",
    "integrations": "agent frameworks by their real packages, in an environment of their own: make integrations",
}
"""What each folder has. The slow ones start first, so that concurrent processes end at about the same time: one file of
benchmarks takes two minutes of processor time."""
RELEASE = (
    "acceptance/test_backup.py",
    "acceptance/test_documented.py",
    "acceptance/test_examples.py",
    "acceptance/test_explorer.py",
    "acceptance/test_first_deployment.py",
    "acceptance/test_flower.py",
    "acceptance/test_model_path.py",
    "acceptance/test_systemd.py",
    "acceptance/test_watching.py",
    "acceptance/test_wheel.py",
    "benchmarks",
    "contract/memory/test_gateway_node.py",
    "contract/memory/test_openapi.py",
    "contract/memory/test_typescript.py",
    "unit/deploy/test_compose.py",
    "unit/deploy/test_dashboards.py",
    "unit/deploy/test_image.py",
    "unit/deploy/test_kubernetes.py",
)
"""Folders and modules of ``make test-release``: deployment, pages in a browser, benchmarks, and other slow tests. Single
slow tests, in modules with faster ones of the same promise, are marked where they are."""
WITHOUT_CONNECTIONS = {"unit", "property"}
GARBAGE_FROM = 10_000
"""New objects after which Python collects garbage in cycles; its own 700 is meant for small programs."""


@cache
def tier_of(path: Path) -> str | None:
    """The tier that a test file belongs to, None outside of the tiers."""
    if not path.is_relative_to(TESTS):
        return None
    folder = path.relative_to(TESTS).parts[0]
    return folder if folder in TIERS else None


@cache
def is_for_releases(path: Path) -> bool:
    """Whether ``make test`` leaves the whole file out."""
    return any(path.is_relative_to(TESTS / place) for place in RELEASE)


def is_left_out(path: Path, wanted: str) -> bool:
    """Whether no test of a file (or folder) is among those that ``-m`` wants: then it need not be imported: collecting
    the slow tests alone takes each of the concurrent processes 9 s of processor time instead of 16."""
    if wanted == "not release":
        return is_for_releases(path)
    if wanted != "release" or is_for_releases(path) or not (path.name.startswith("test_") and path.suffix == ".py"):
        return False
    return "mark.release" not in path.read_text()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The two targets import their own files."""
    return is_left_out(collection_path, config.getoption("markexpr")) or None


def pytest_configure(config: pytest.Config) -> None:
    """Make ``-m unit`` and the like possible."""
    for tier, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}")
    config.addinivalue_line("markers", "release: tested by make test-release, not by make test")
    if find_spec("hypothesis") is not None:  # the environment of the agent frameworks has none
        from hypothesis import settings

        # Hypothesis' own 200 ms for an example say how busy the machine is.
        settings.register_profile("memforest", settings.default, deadline=None)
        settings.load_profile("memforest")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier and those of RELEASE, and put the slow tiers first."""
    order = list(TIERS)
    for item in items:
        tier = tier_of(item.path)
        if tier is not None:
            item.add_marker(tier)
            if is_for_releases(item.path):
                item.add_marker("release")
    items.sort(key=lambda item: order.index(tier_of(item.path) or order[-1]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected and imported stays to the end: an eighth of all processor time was spent on looking through it
    for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE_FROM)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test fails: what it needs is part of what is tested."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"Skipping is not allowed here: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """So does a whole file that would be skipped."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"Skipping is not allowed here: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


class ConnectionRefusedHere(Exception):
    """A test of a pure tier reached for a server: move it to another tier, or pass in what it needs."""


def refuse(*_arguments: object, **_named: object) -> NoReturn:
    """Replaces the function that would open a connection."""
    raise ConnectionRefusedHere(ConnectionRefusedHere.__doc__)


@pytest.fixture(scope="session")
def servers() -> Iterator[SessionServers]:
    """Postgres and Valkey of this session, with a migrated database to clone; each test has a database of its own."""
    from tests.harness.servers import session_servers
    from tests.harness.stack import make_template

    with session_servers() as running:
        make_template(running)
        yield running


@pytest.fixture(autouse=True)
def logs_as_found() -> Iterator[None]:
    """Commands configure the logs of their process; here that is the tests' own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit and property tests can neither connect nor listen; psycopg's C library has a door of its own."""
    if tier_of(request.path) not in WITHOUT_CONNECTIONS:
        return
    for method in ("connect", "connect_ex", "bind", "listen"):
        monkeypatch.setattr(socket.socket, method, refuse)
    for name in ("getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(psycopg.Connection, "connect", refuse)
    monkeypatch.setattr(psycopg, "connect", refuse)
