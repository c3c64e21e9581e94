"""Endpoints of webhooks and their deliveries: where they may go, how they are signed; make, list, disable, replay."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page, checked_id, checked_limit, from_cursor, page_of
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.webhooks.records import Delivery, Endpoint, Event, Message, NewEndpoint
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.settings import WebhookSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkState

T = TypeVar("T")

MAX_URL = 2_048
_EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""Where the last 32 bits are an IPv4 address: NAT64 (RFC 6052), and what was to be IPv4-compatible (RFC 4291)."""
_NOT_PUBLIC = (IPv4Network("192.0.0.0/24"), IPv6Network("fec0::/10"), IPv6Network("3fff::/20"))
"""IETF protocols, site-local addresses, documentation: versions of Python differ in whether these are public."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet: not private, loopback, link-local, multicast or reserved.

    An IPv6 address with an IPv4 one in it is judged by that.
    """
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        inner = _embedded(parsed)
        if inner is not None:
            return is_public(str(inner))
    if any(parsed in network for network in _NOT_PUBLIC):
        return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def checked_url(url: str, *, allow_private: bool) -> str:
    """A URL that an endpoint may have; its name is looked up when something is delivered. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid("Give url as an address such as https://example.com/hook.") from None
    if not host or port == 0 or len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise _invalid(f"Give url as an address such as https://example.com/hook, at most {MAX_URL:,} characters.")
    if parts.username is not None or parts.fragment:
        raise _invalid("Give url without a user name, a password and a fragment.")
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        raise _invalid("Give url with https; the setting webhooks.allow_private allows http too.")
    if not allow_private and _is_private_literal(host):
        raise _invalid("Give url with a public address; the setting webhooks.allow_private allows others too.")
    return url


def _is_private_literal(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_url")


PREFIX = "whsec_"
"""Begins each secret of a symmetric signature."""
SECRET_BYTES = 32
"""Random bytes of a secret: the specification requires 24 to 64."""


def new_secret() -> str:
    """A secret as it is shown and stored: base64 after the prefix."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def body_of(tenant: TenantId, message: Message) -> bytes:
    """What is posted; the same at each try."""
    message_body = {
        "type": message.event,
        "timestamp": message.created_at.isoformat(),
        "data": {"tenant": tenant, **dict(sorted(message.data.items()))},
    }
    return json.dumps(message_body, separators=(",", ":")).encode()


def headers_of(message: Message, body: bytes, now_s: int) -> dict[str, str]:
    """The headers that a message is signed with at a moment (seconds since 1970)."""
    return {
        "webhook-id": str(message.id),
        "webhook-timestamp": str(now_s),
        "webhook-signature": signatures(message.secrets, str(message.id), now_s, body),
    }


def signatures(own: Sequence[str], id_: str, now_s: int, body: bytes) -> str:
    """One HMAC-SHA256 for each secret over id, time and body, separated by spaces."""
    signed = f"{id_}.{now_s}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix(PREFIX)) for secret in own]
    digests = [hmac.digest(key, signed, hashlib.sha256) for key in keys]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


MAX_ENDPOINTS = 100
"""Of a tenant: each event is stored once for each that wants it."""
MAX_DESCRIPTION = 512
OVERLAP_S = 86_400.0
"""How long a former secret signs in addition to the new one."""


class Webhooks:
    """The webhooks of one tenant. Each call is one transaction."""

    def __init__(self, engine: Engine, settings: WebhookSettings, tenant: TenantId) -> None:
        self._engine = engine
        self._settings = settings
        self._tenant = tenant

    @repeated
    def create(self, url: str, events: Sequence[str] | None = None, *, description: str = "") -> NewEndpoint:
        """Have ``events`` (all unless given) posted to ``url`` from now on; the secret is shown this once.

        Raises InvalidInput.
        """
        checked = checked_url(url, allow_private=self._settings.allow_private)
        wanted = _events(events)
        if len(description) > MAX_DESCRIPTION or "\0" in description:
            raise InvalidInput(f"Give description at most {MAX_DESCRIPTION} characters.", code="invalid_description")
        secret = new_secret()
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            if len(rows.endpoints()) >= MAX_ENDPOINTS:
                raise InvalidInput(
                    f"Delete an endpoint first: {MAX_ENDPOINTS} are the most.", code="too_many_endpoints"
                )
            return NewEndpoint(rows.add(checked, wanted, description, secret), secret)

    @repeated
    def list(self) -> Sequence[Endpoint]:
        """All endpoints, the newest first."""
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            return rows.endpoints()

    def delete(self, endpoint: UUID | str) -> None:
        """Delete an endpoint with its deliveries. Raises InvalidInput, NotFound."""
        self._changed(endpoint, WebhookRows.drop)

    def enable(self, endpoint: UUID | str, enabled: bool = True) -> Endpoint:
        """Enable an endpoint, or with ``enabled`` False disable it: nothing that happens meanwhile is posted to it.

        Raises InvalidInput, NotFound.
        """
        return self._changed(endpoint, lambda rows, id_: rows.set_enabled(id_, enabled))

    def rotate(self, endpoint: UUID | str) -> NewEndpoint:
        """Give an endpoint another secret; the former one signs too for a day. Raises InvalidInput, NotFound."""
        secret = new_secret()
        return NewEndpoint(self._changed(endpoint, lambda rows, id_: rows.rotate(id_, secret, OVERLAP_S)), secret)

    @repeated
    def _changed(self, endpoint: UUID | str, change: Callable[[WebhookRows, UUID], T | None]) -> T:
        wanted = checked_id(str(endpoint), "endpoint")
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            found = change(rows, wanted)
        if not found:
            raise NotFound(f"There is no endpoint {wanted}: memforest webhooks list shows them.")
        return found

    @repeated
    def deliveries(
        self,
        endpoint: UUID | str | None = None,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Deliveries of an ``endpoint``, or of all, the newest first; only those in a ``state`` (such as "dead") where
        one is given. At most ``limit``; ``cursor`` is that of the page before. Raises InvalidInput."""
        wanted = None if endpoint is None else checked_id(str(endpoint), "endpoint")
        most, which, after = checked_limit(limit), _state(state), from_cursor(cursor, datetime, UUID)
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            found = rows.deliveries(wanted, which, after, most + 1)
        return page_of(found, most, lambda each: each, lambda each: [each.created_at, each.id])

    @repeated
    def replay(self, delivery: UUID | str) -> Delivery:
        """Deliver again what was delivered or given up, with all its tries; what is under way stays as it is.

        Raises InvalidInput, NotFound.
        """
        wanted = checked_id(str(delivery), "delivery")
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            rows.replay(wanted)
            found = rows.delivery(wanted)
        if found is None:
            raise NotFound(f"There is no delivery {wanted}: memforest webhooks deliveries shows them.")
        return found


def _events(events: Sequence[str] | None) -> tuple[Event, ...]:
    if events is None:
        return tuple(Event)
    if isinstance(events, str) or not events or not set(events) <= set(Event):
        raise InvalidInput(f"Give events as a list of {', '.join(Event)}.", code="invalid_events")
    return tuple(event for event in Event if event in events)


def _state(state: str | None) -> WorkState | None:
    if state is not None and state not in list(WorkState):
        raise InvalidInput(f"Set state to one of {', '.join(WorkState)}.", code="invalid_state")
    return None if state is None else WorkState(state)
