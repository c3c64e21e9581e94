"""A process that owns an index directory and serves it to the workers of its machine, as an embedded node does."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.socket_index import SocketServer, write_address


def main(arguments: list[str]) -> None:
    """Serve a directory until the process is killed; the socket is the first line of stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--model", required=True, help="name of the embedding model")
    parser.add_argument("--dimension", type=int, required=True, help="of its vectors")
    options = parser.parse_args(arguments)
    index = EdgeIndex(options.path, options.model, options.dimension)
    index.prepare()
    # A directory of its own: the server removes it with all that is in it.
    socket = options.path / "served" / "socket"
    server = SocketServer(index, socket)
    write_address(options.path, socket)
    print(socket, flush=True)
    try:
        signal.pause()
    finally:
        server.close()
        index.close()


if __name__ == "__main__":
    main(sys.argv[1:])
