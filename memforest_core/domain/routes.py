"""How a public operation is reached over HTTP: each folder's http.py lists its own in these words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memforest_core.domain.operation_rules import OperationKind


class Scope(StrEnum):
    """What a key may do; each includes the ones before it."""

    READ = "read"
    """Ask and look."""
    WRITE = "write"
    """Also store, correct and forget what owners said."""
    ADMIN = "admin"
    """Also operations on whole forests, limits, policies, dead letters and the audit."""

    def allows(self, wanted: Scope) -> bool:
        """Whether a key with this scope may do what needs ``wanted``."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class Verb(StrEnum):
    """The HTTP methods in use. GET takes its arguments from the query, the others from a JSON body."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"


READ, WRITE, ADMIN = Scope
GET, POST, PUT, DELETE = Verb


@dataclass(frozen=True, slots=True)
class Route:
    """One operation: its name among the methods of ``MemForest``, and where it is reached below ``/v1``.

    Ids of ours stand in the path; ids of callers, which may hold any character, in the query or the body.
    """

    name: str
    """``recall``; with a dot for what hangs below (``lifecycle.forget``, ``dead.list``)."""
    verb: Verb
    path: str
    """``/recall``; parts in braces are arguments."""
    scope: Scope
    service: str = ""
    """The service of ``client/services`` whose method it is (``reading``), with a dot where the method has another name
    (``erasure.ask``); empty for what a class of ``client`` defines itself."""
    starts: OperationKind | None = None
    """The kind of operation that the method starts."""
    owners: tuple[str, ...] = ("owner",)
    """The arguments that name owners; a key that is bound to owners can't use a route without any."""
    example: Mapping[str, object] = field(default_factory=dict)
    """Arguments of a call as the reference shows it."""

    @property
    def id(self) -> str:
        """The operation's id in the OpenAPI document."""
        return self.name.replace(".", "_").rstrip("_")
