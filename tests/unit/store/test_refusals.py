"""Messages of libpq when no connection was made, by their causes."""

from __future__ import annotations

import pytest

from memforest_core.errors import StoreRefused, StoreUnavailable
from memforest_core.store.refusals import OWNER, SERVICE, refusal

AT = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: FATAL:  '


@pytest.mark.parametrize(
    "text, code, names",
    [
        (AT + 'password authentication failed for user "app"', "store_auth_failed", "'app'"),
        ('connection to server at "h", port 1 failed: fe_sendauth: no password supplied', "store_auth_failed", ""),
        (AT + 'role "app" does not exist', "store_role_missing", "'app'"),
        (AT + 'Peer authentication failed for user "app"', "store_role_missing", "'app'"),
        (AT + 'role "app" is not permitted to log in', "store_role_missing", "'app'"),
        (AT + 'database "memory" does not exist', "store_database_missing", "'memory'"),
        (AT + 'permission denied for database "memory"', "store_database_missing", "'memory'"),
        (AT + 'no pg_hba.conf entry for host "10.0.0.9", user "app", database "m"', "store_access_denied", "pg_hba"),
        (AT + "SASL authentication failed", "store_auth_failed", ""),
        (AT + "no such database: memory", "store_database_missing", ""),
        (AT + "quelque chose d'autre", "store_refused", ""),
    ],
)
def test_a_server_that_refuses(text: str, code: str, names: str) -> None:
    for variable in (SERVICE, OWNER):
        error = refusal(text, variable)
        assert isinstance(error, StoreRefused)
        assert error.code == code
        assert variable in error.message
        assert names in error.message


@pytest.mark.parametrize(
    "text, says",
    [
        ('connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused', SERVICE),
        ("failed to resolve host 'nowhere'", SERVICE),
        ("connection timeout expired", SERVICE),
        ("server closed the connection unexpectedly", SERVICE),
        (AT + "sorry, too many clients already", "max_connections"),
        (AT + "the database system is starting up", "starting"),
    ],
)
def test_a_server_that_cannot_be_reached_now(text: str, says: str) -> None:
    error = refusal(text)
    assert type(error) is StoreUnavailable
    assert says in error.message


@pytest.mark.parametrize("text", ['role "app" does not exist', 'password authentication failed for user "app"'])
def test_a_role_that_may_be_missing_is_made_by_the_upgrade(text: str) -> None:
    """Given a wanted password, then Postgres says the same of a missing role: both sentences tell who makes it."""
    assert f"memforest db upgrade with {OWNER} set makes the role" in refusal(AT + text).message
    assert "makes the role" not in refusal(AT + text, OWNER).message
