"""Log lines of a process: JSON on stderr, with event names and ids; never a text that somebody said."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import structlog

from memforest_core.cli.toolkit.output import Exit, exit_code, json_line
from memforest_core.errors import MemForestError, place_of

QUIET_LIBRARIES = ("alembic", "amqp", "celery", "httpcore", "httpx", "kombu", "LiteLLM", "qdrant_client")
"""Their routine lines say nothing that ours do not."""


def configure_logs(level: int) -> None:
    """Send our own and the libraries' log lines of ``level`` and above to stderr."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _place_of_exception,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    handler = CurrentStderr()
    handler.setFormatter(LibraryLines())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def in_child(failed: str, work: Callable[[], None]) -> Exit:
    """How a child process ends that does this work; an error is logged as the event ``failed``."""
    try:
        work()
    except MemForestError as error:
        structlog.get_logger(__name__).error(failed, code=error.code, reason=error.message)
        return exit_code(error)
    return Exit.DONE


def _place_of_exception(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    info = event.pop("exc_info", None)
    error = sys.exc_info()[1] if info is True else info
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event.update(place_of(error))
    return event


class CurrentStderr(logging.Handler):
    """Writes to ``sys.stderr`` as it is when a line is logged, not as it was at the start."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


class LibraryLines(logging.Formatter):
    """Standard log records as JSON; a record about an exception has its type and place alone."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "event": "library_log",
            "library": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line |= place_of(error)
        elif not record.name.startswith("celery.app.trace"):
            line["message"] = record.getMessage()
        return json_line(line)
