"""Log lines: JSON, ids and code locations; never what somebody said."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from memforest_core.cli.toolkit.logs import configure_logs

SAID = "I keep my savings under the mattress"


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_the_level_applies_to_every_logger(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.WARNING)
    structlog.get_logger("memforest").info("quiet")
    logging.getLogger("some.library").info("quiet")
    assert logged(capsys) == []


def test_an_exception_leaves_its_type_and_place_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    try:
        raise ValueError(SAID)
    except ValueError as error:
        structlog.get_logger("memforest").error("task_crashed", exc_info=True)
        logging.getLogger("celery.app.trace").exception("raised unexpected: %r", error)  # as Celery does
    ours, librarys = logged(capsys)
    for line in (ours, librarys):
        assert line["exception"] == "ValueError"
        assert "test_logs.py" in str(line["at"])
        assert SAID not in json.dumps(line)


def test_routine_lines_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    logging.getLogger("celery.worker.strategy").info("Task received")
    logging.getLogger("celery.worker.consumer").warning("Connection lost")
    (line,) = logged(capsys)
    assert (line["library"], line["message"]) == ("celery.worker.consumer", "Connection lost")
