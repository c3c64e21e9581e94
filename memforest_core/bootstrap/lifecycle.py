"""What can be done to stored memory, wired: the tasks that workers run for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.contexts.maintenance.service import Handler

if TYPE_CHECKING:
    from memforest_core.bootstrap.service import Services


def open_handlers(services: Services) -> dict[str, Handler]:
    """The handlers of operations, by kind."""
    handlers: dict[str, Handler] = {}
    return handlers
