"""A process that moves a tenant and is killed at a statement."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from memforest_core.domain.ids import TenantId
from memforest_core.lifecycle.move.rows import move
from memforest_core.settings import DatabaseSettings


class NoIndex:
    """Deletes nothing: the index belongs to another process."""

    def delete(self, keys: object) -> None:
        """Nothing."""


def moving(database: DatabaseSettings, to: str, tenant: TenantId, words: str, count: int) -> None:
    """Move, until a statement with these words is to be sent for the time ``count``."""
    left = [count]

    def sent(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        left[0] -= words in statement
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sa.Engine, "before_cursor_execute", sent)
    move(database, to, tenant, NoIndex())  # type: ignore[arg-type]


def killed(database: DatabaseSettings, to: str, tenant: TenantId, words: str, count: int = 1) -> bool:
    """Whether the move was killed at that place."""
    process = multiprocessing.get_context("spawn").Process(target=moving, args=(database, to, tenant, words, count))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL
