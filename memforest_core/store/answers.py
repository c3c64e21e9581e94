"""A connection that gives up a Postgres which hangs: neither a stopped server nor a lost packet sends an error."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from memforest_core.store.deadlines import seconds_left

RV = TypeVar("RV")


class NoAnswer(psycopg.OperationalError):
    """Postgres did not answer in time; the connection is closed."""


class Answering(psycopg.Connection[Any]):
    """A connection that waits ``answer_s`` seconds for an answer, and never beyond the end of ``deadlines.within``.

    The server's own timeouts end a long statement; this one ends the wait for a server that does nothing any more.
    """

    answer_s: float | None = None
    """None waits for ever."""

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg, which calls it for all that it sends and reads after it has connected. Raises NoAnswer."""
        if self.answer_s is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._bounded(gen, min(self.answer_s, seconds_left())), *args, **kwargs)

    def _bounded(self, gen: PQGen[RV], most_s: float) -> PQGen[RV]:
        deadline = time.monotonic() + most_s
        try:
            wanted = next(gen)
            while True:
                # psycopg resumes it at least each tenth of a second.
                ready = yield wanted
                if not ready and time.monotonic() >= deadline:
                    self.pgconn.finish()
                    raise NoAnswer(
                        f"Postgres did not answer within {most_s:.1f} s: look whether its server hangs or the network"
                        " drops packets (see MEMFOREST_DATABASE__ANSWER_TIMEOUT_S)."
                    )
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: RV = ended.value
            return result
