"""Listening: what the socket is, and what a taken address says."""

from __future__ import annotations

import socket

import pytest

from memforest_core.errors import InvalidSettings
from memforest_core.http.serving import address_of, listen


def test_small_answers_are_not_held_back() -> None:
    """asyncio switches Nagle's algorithm off on what it knows to be TCP: the protocol has to be named."""
    opened = listen("127.0.0.1", 0)
    try:
        assert opened.proto == socket.IPPROTO_TCP
        assert address_of(opened) == f"http://127.0.0.1:{opened.getsockname()[1]}"
        with pytest.raises(InvalidSettings, match="MEMFOREST_SERVER__PORT"):
            listen("127.0.0.1", opened.getsockname()[1])
    finally:
        opened.close()
