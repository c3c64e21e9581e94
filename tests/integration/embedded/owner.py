"""A process that owns a data directory, for tests that interrupt, kill or fork it.

    owner.py DIRECTORY MODE

``wait`` reports and waits for Ctrl-C, then queries its servers and closes; ``leave`` exits without
closing; ``fork`` lets a fork try everything and then live on without its parent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psycopg
import redis

from memforest_core.client.embedded.directory import UsedAfterFork
from memforest_core.client.embedded.servers import EmbeddedServers


def report(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def conninfo(servers: EmbeddedServers) -> str:
    return servers.postgres_url.replace("postgresql+psycopg", "postgresql")


def report_start(servers: EmbeddedServers) -> None:
    report(pid=os.getpid(), postgres=servers.postgres.pid, valkey=servers.valkey.pid, conninfo=conninfo(servers))


def wait(servers: EmbeddedServers) -> None:
    try:
        report_start(servers)  # Ctrl-C may follow at once
        time.sleep(60)
    except KeyboardInterrupt:
        with psycopg.connect(conninfo(servers)) as connection:
            row = connection.execute("select 1").fetchone()
        pong = redis.Redis.from_url(servers.redis_url).ping()
        report(after_interrupt=[row == (1,), pong])
        servers.close()
        report(closed=True)


def fork(servers: EmbeddedServers) -> None:
    child = os.fork()
    if child == 0:
        refused = []
        for use in (servers.directory.check_process, servers.close):
            try:
                use()
            except UsedAfterFork as error:
                refused.append(str(error))
        report(refused=refused, child=os.getpid())
        time.sleep(60)
        os._exit(0)


def main() -> None:
    servers = EmbeddedServers.start(Path(sys.argv[1]))
    match sys.argv[2]:
        case "wait":
            wait(servers)
        case "fork":
            report_start(servers)
            fork(servers)
            time.sleep(60)
        case "leave":
            report_start(servers)


if __name__ == "__main__":
    main()
