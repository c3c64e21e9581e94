"""``memforest serve``: the memory over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, print_json
from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    import socket

WATCH_S = 1.0


def serve(
    host: Annotated[str | None, option("The address to listen on. Default: the setting server.host.")] = None,
    port: Annotated[
        int | None, option("Port; 0 takes a free one. Default: the setting server.port.", min=0, max=65_535)
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Number of processes. One that dies is restarted.")] = 1,
    proxy: Annotated[
        str | None,
        option("Addresses of proxies whose X-Forwarded headers are trusted. Default: the setting server.proxy."),
    ] = None,
    data: DataOption = None,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the OpenAPI document and serve nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve the memory over HTTP until Ctrl-C or SIGTERM. Needs the extra "server".

    Programs send a key made by memforest keys create. The log on stderr is JSON lines with ids and no text.
    """
    import logging

    from memforest_core.cli.toolkit.logs import configure_logs
    from memforest_core.cli.toolkit.memory_opening import opened_store
    from memforest_core.settings import load_settings
    from memforest_core.store.schema import check_ready

    configure_logs(logging.INFO)
    with needed("memforest[server]"):
        from memforest_core.service.http.http_app import openapi as document
        from memforest_core.service.http.serving import address_of, listen
    if openapi:
        print_json(document())
        return
    if data is not None and processes > 1:
        raise InvalidInput(
            "An embedded node is one process: leave --processes out, or --data.", code="invalid_processes"
        )
    settings = load_settings()
    own = settings.server
    listening = listen(own.host if host is None else host, own.port if port is None else port)
    announce = partial(_announce, address_of(listening), processes, as_json)
    if processes == 1:
        _serve(listening, data, proxy, ready=announce)
        return
    with opened_store(None) as store:
        check_ready(store.engine)
    announce()
    _serve_in(processes, listening, proxy)


def _serve(
    listening: socket.socket,
    data: Path | None,
    proxy: str | None,
    place: int = 0,
    ready: Callable[[], None] | None = None,
) -> None:
    """Answer in this process until a signal stops it, and call ``ready`` when it does; its metrics are ``place`` ports
    after the setting's."""
    from memforest_core.cli.toolkit.memory_opening import opened_memory
    from memforest_core.observe.prometheus import BacklogCollector, PrometheusTelemetry, serve_metrics
    from memforest_core.observe.rows import ObserveStore
    from memforest_core.service.http.serving import HttpServer
    from memforest_workers.supervisor import stop_requested

    with opened_memory(data, create=True) as memory, stop_requested() as stop, ExitStack() as undo:
        settings, registry = memory.settings, None
        if (port := settings.server.metrics_port) is not None:
            telemetry = PrometheusTelemetry()
            backlog = BacklogCollector(ObserveStore(memory.services.engine), settings)
            at = port + place if port else 0
            undo.enter_context(serve_metrics(telemetry, backlog, settings.observe.metrics_host, at))
            registry = telemetry.registry
        server = HttpServer(memory, listening, registry, proxy)
        server.start()
        if ready is not None:
            ready()
        while server.running and not stop.wait(WATCH_S):
            pass
        server.stop()


def _serve_in(processes: int, listening: socket.socket, proxy: str | None) -> None:
    """Answer in several processes on one socket."""
    from memforest_core.cli.toolkit.logs import in_child
    from memforest_core.service.http.serving import STOP_S
    from memforest_workers.supervisor import Supervisor

    def child(place: int, parent: int) -> int:
        return in_child("server_not_started", lambda: _serve(listening, None, proxy, place))

    Supervisor(processes, child, STOP_S + 5).run()


def _announce(address: str, processes: int, as_json: bool) -> None:
    if not answered({"pid": os.getpid(), "address": address, "processes": processes}, as_json=as_json):
        console().print(f"MemForest answers at {address} (process {os.getpid()}). Stop with Ctrl-C.", soft_wrap=True)
    sys.stdout.flush()  # a parent process may wait for this line
