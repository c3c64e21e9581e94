"""Why a connection to Postgres was not made, by kind, with the variable to change.

The driver gives no SQL state for a connection that failed, only libpq's text. The server's part of it follows its
``lc_messages``; what is not recognized is said without a cause.
"""

from __future__ import annotations

import re

from memforest_core.errors import StoreRefused, StoreUnavailable

SERVICE = "MEMFOREST_DATABASE__URL"
OWNER = "MEMFOREST_DATABASE__MIGRATION_URL"

_NAMED = re.compile(r'(?:role|user|database) "(?P<name>[^"]{1,63})"')

_EMBEDDED = re.compile(r'socket "(?P<socket>[^"]*/mf-[0-9a-f]{16}/pg/[^"]*)" failed: (?!FATAL)')
"""The socket of ``embedded/directory.py``, where nobody listens."""

_REFUSALS = (
    (
        "store_access_denied",
        ("pg_hba.conf",),
        "Postgres does not let this machine or role connect (pg_hba.conf): allow it there, or change {variable}.",
    ),
    (
        "store_auth_failed",
        ("password authentication failed", "no password supplied", "SASL authentication failed", "wrong password"),
        "Postgres refuses the password of role {name}: change the password in {variable}{first}.",
    ),
    (
        "store_role_missing",
        (
            'role "',
            "no such user",
            "authentication failed for user",  # peer, ident and the like: this role is not for this user
            "is not permitted to log in",
        ),
        "Postgres has no role {name} that may log in from here: change the role in {variable}{first}.",
    ),
    (
        "store_database_missing",
        ('database "', "no such database"),
        "Postgres has no database {name}, or the role may not connect to it: create it, or change the database in"
        " {variable}.",
    ),
)

_FIRST = f"; before the first start, memforest db upgrade with {OWNER} set makes the role"
"""Where a password is wanted, Postgres does not tell a missing role from a wrong password."""

_SILENT = ("timeout expired", "timed out")
_FULL = ("too many clients", "remaining connection slots", "too many connections")
_STARTING = ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")


def refusal(text: str, variable: str = SERVICE) -> StoreUnavailable:
    """The error for a connection that failed with ``text`` (libpq's); ``variable`` has the address."""
    node = _EMBEDDED.search(text)
    if node:
        return StoreUnavailable(
            f"The Postgres of the embedded node does not run (socket {node['socket']}): look at logs/postgres.log in"
            " the node's directory, and start the node again."
        )
    if any(sign in text for sign in _SILENT):
        return StoreUnavailable(
            "Postgres does not answer: look whether its server hangs or the network drops packets, or check"
            f" {variable}."
        )
    if any(sign in text for sign in _FULL):
        return StoreUnavailable("Postgres has no connection left for this role: raise its max_connections.")
    if any(sign in text for sign in _STARTING):
        return StoreUnavailable("Postgres is starting or stopping: try again in some seconds.")
    said = text.partition("FATAL:")[2]
    for code, signs, sentence in _REFUSALS:
        if any(sign in said or (sign == "no password supplied" and sign in text) for sign in signs):
            named = _NAMED.search(said)
            name = f"{named['name']!r}" if named else "given"
            first = _FIRST if variable == SERVICE else ""
            return StoreRefused(sentence.format(name=name, variable=variable, first=first), code=code)
    if said:
        return StoreRefused(f"Postgres refuses the connection: check {variable}.", code="store_refused")
    return StoreUnavailable(f"Postgres can't be reached: check {variable} and that the server runs.")
