"""A whole MemForest in one process and one directory: servers, index, worker and library."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.client.services.service import Services, open_services
from memforest_core.index.socket_index import SocketServer
from memforest_core.models.calls import Step
from memforest_core.observe.watching import Watching, open_watching
from memforest_core.settings import BrokerSettings, DatabaseSettings, Settings
from memforest_core.store.schema import upgrade
from memforest_core.work.telemetry import Telemetry
from memforest_workers.worker import BackgroundWorker

SERVICE_ROLE = "memforest_app"
CLOSE_DEADLINE_S = 10.0


@dataclass(eq=False)
class EmbeddedNode:
    """Running servers, services and worker; use ``start``, then ``close``."""

    servers: EmbeddedServers
    services: Services
    worker: BackgroundWorker
    _watching: Watching
    _index_server: SocketServer
    _closed: bool = False

    @classmethod
    def start(
        cls, path: Path, settings: Settings, concurrency: int, telemetry: Telemetry | None = None
    ) -> EmbeddedNode:
        """Start everything in ``path``; the schema is upgraded by itself. All or nothing.

        ``telemetry`` is given in place of metrics and traces of the settings.

        Raises DataDirectoryInUse, ServerFailed, InvalidSettings, and ModelRejected or ModelAuthFailed for a model that
        can't be called as it is set.
        """
        if not structlog.is_configured():
            # Stdout is the program's own. Like the standard library's, warnings go to stderr and nothing below them.
            structlog.configure(
                wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
                logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            )
        with ExitStack() as undo:
            servers = EmbeddedServers.start(path)
            undo.callback(servers.close)
            local = embedded_settings(settings, servers)
            upgrade(local.database)
            watching = open_watching(local)
            undo.callback(watching.close)
            services = open_services(local, telemetry=telemetry or watching.telemetry, owns_index=True)
            undo.callback(services.close)
            services.check_models((Step.EXTRACT, Step.SUMMARIZE))
            worker = BackgroundWorker(services, servers.broker_url, concurrency)
            worker.start()
            undo.callback(worker.stop, CLOSE_DEADLINE_S)
            index_server = SocketServer(services.index, servers.directory.index_socket)
            undo.callback(index_server.close)
            watching.serve(services.engine, lambda: worker.upkept)
            servers.directory.publish(addresses(local))
            undo.pop_all()
        return cls(servers, services, worker, watching, index_server)

    def check_process(self) -> None:
        """Raise UsedAfterFork in a forked process."""
        self.servers.directory.check_process()

    def publish_server(self, host: str, port: int) -> None:
        """Write down where this process also answers HTTP."""
        server = {"server": {"host": host, "port": str(port)}}
        self.servers.directory.publish(addresses(self.services.settings) | server)

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Stop the worker (waiting for running calls up to the deadline), the index and the servers.

        What was not finished goes on at the next start. Closing twice is allowed.
        """
        self.check_process()
        if self._closed:
            return
        self._closed = True
        self.worker.stop(deadline_s)
        self._watching.close()
        self._index_server.close()
        self.services.close()
        self.servers.close()


def addresses(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings, by group, with which other processes of this user reach a node that has these, and mask as it does,
    but for a function that they can't import."""
    redact = settings.accept.redact
    module, name = (getattr(redact.function, each, "<unknown>") for each in ("__module__", "__qualname__"))
    masks = redact.model_dump(exclude={"function"}, exclude_defaults=True)
    if module != "__main__" and "<" not in f"{module}{name}":
        masks["function"] = f"{module}.{name}"
    masking = {"accept": {"redact": masks}} if masks else {}
    return masking | {
        "database": {"url": settings.database.url.get_secret_value()},
        "broker": {"url": settings.broker.url.get_secret_value()},
        "index": {"kind": settings.index.kind, "path": str(settings.index.path)},
    }


def embedded_settings(settings: Settings, servers: EmbeddedServers) -> Settings:
    """The settings with the addresses of the embedded servers."""
    return settings.model_copy(
        update={
            "database": DatabaseSettings(
                **settings.database.model_dump(exclude={"url", "migration_url"}),
                url=SecretStr(servers.postgres.url(SERVICE_ROLE)),
                migration_url=SecretStr(servers.postgres_url),
            ),
            "broker": BrokerSettings(**settings.broker.model_dump(exclude={"url"}), url=SecretStr(servers.broker_url)),
            "index": settings.index.model_copy(update={"kind": "qdrant_edge", "path": servers.directory.qdrant}),
        }
    )
