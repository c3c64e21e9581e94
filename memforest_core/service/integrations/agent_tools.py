"""The tools that agents get over MCP, as functions that frameworks make tools of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from memforest_core.domain.extras import needed
from memforest_core.errors import MemForestError

with needed("memforest[server]"):
    from memforest_core.service.mcp.tools import Asker, Tools

if TYPE_CHECKING:
    from memforest_core.client.async_memory import AsyncMemForest
    from memforest_core.client.remote.remote_memory import AsyncRemoteMemForest

_OURS = ("call", "owner")
"""Parameters that the agent has nothing to do with here."""


def agent_tools(
    memory: AsyncMemForest | AsyncRemoteMemForest, owner: str, failure: Callable[[str], Exception]
) -> list[Callable[..., Any]]:
    """remember, recall, context, timeline, profile, sessions and forget for one owner, as coroutine functions.

    ``failure`` makes the exception by which a framework hands its model a sentence.
    """
    # The same methods, as a test of signatures checks.
    asker = Asker(cast("AsyncMemForest", memory), owner=owner)
    own = Tools(lambda call: asker)
    offered = (own.remember, own.recall, own.context, own.timeline, own.profile, own.sessions, own.forget)
    return [_without_ours(tool, failure) for tool in offered]


def _without_ours(tool: Callable[..., Any], failure: Callable[[str], Exception]) -> Callable[..., Any]:
    async def called(**given: Any) -> str:
        try:
            return str(await tool(None, **given))
        except MemForestError as error:
            raise failure(f"{error.message} [{error.code}]") from error

    hints = get_type_hints(tool, include_extras=True)
    signature = inspect.signature(tool)
    shown = [
        each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in signature.parameters.values()
        if each.name not in _OURS
    ]
    called.__name__ = called.__qualname__ = tool.__name__
    called.__doc__ = tool.__doc__
    called.__signature__ = signature.replace(parameters=shown, return_annotation=str)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in shown} | {"return": str}
    return called
