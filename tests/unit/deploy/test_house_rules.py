"""The rules of ``tests/conftest.py`` bite."""

from __future__ import annotations

import socket

import psycopg
import pytest
import sqlalchemy as sa

from tests.conftest import ConnectionRefusedHere


def test_a_unit_test_cannot_reach_a_server() -> None:
    """Given a unit test, when it connects by name, by address or through Postgres, then an error forbids it."""
    with pytest.raises(ConnectionRefusedHere):
        socket.create_connection(("localhost", 5432))
    with socket.socket() as plain, pytest.raises(ConnectionRefusedHere):
        plain.connect(("127.0.0.1", 5432))
    with pytest.raises(ConnectionRefusedHere):
        psycopg.connect("host=127.0.0.1")
    with pytest.raises(ConnectionRefusedHere):
        sa.create_engine("postgresql+psycopg://nobody@127.0.0.1/nothing").connect()


def test_a_unit_test_cannot_listen() -> None:
    """Given a unit test, when it opens a port, then an error forbids it."""
    with socket.socket() as plain, pytest.raises(ConnectionRefusedHere):
        plain.bind(("127.0.0.1", 0))
