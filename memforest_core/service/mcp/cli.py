"""``memforest mcp``: the tools over stdio, for agents on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from memforest_core.cli.toolkit.options import DataOption, option
from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidInput, InvalidSettings

if TYPE_CHECKING:
    from memforest_core.client.async_memory import AsyncMemForest

KEY = "MEMFOREST_KEY"


def mcp(
    owner: Annotated[str, option("Owner for tool calls that name none.", "--owner", "-o")] = "",
    server: Annotated[str | None, option(f"The address of a MemForest server; its key in {KEY}.")] = None,
    data: DataOption = None,
) -> None:
    """Offer the memory to an agent as tools over stdio (MCP). An agent's configuration starts this command.

    Works on the services that the settings name, on an embedded node (--data), or over HTTP (--server).
    """
    import asyncio

    from memforest_core.cli.toolkit.memory_opening import quiet_logs

    quiet_logs()
    if server is not None and data is not None:
        raise InvalidInput("Give --server or --data, not both.", code="invalid_server")
    with needed("memforest[server]"):
        import mcp.server  # noqa: F401
    asyncio.run(_over_http(server, owner) if server is not None else _here(data, owner))


async def _over_http(address: str, owner: str) -> None:
    from memforest_core.client.remote.remote_memory import AsyncRemoteMemForest

    key = os.environ.get(KEY)
    if not key:
        raise InvalidSettings(f"Set {KEY} to the key that memforest keys create printed.")
    async with AsyncRemoteMemForest(address, key) as memory:
        await _serve(memory, owner)  # type: ignore[arg-type]  # the same methods, as a test of signatures checks


async def _here(data: Path | None, owner: str) -> None:
    from memforest_core.cli.toolkit.memory_opening import opened_memory
    from memforest_core.client.async_memory import AsyncMemForest

    with opened_memory(data, create=True) as memory:
        await _serve(AsyncMemForest(memory), owner)


async def _serve(memory: AsyncMemForest, owner: str) -> None:
    from memforest_core.service.mcp.tools import Asker, make_server

    asker = Asker(memory, None, owner)
    await make_server(lambda _call: asker).run_stdio_async()
