"""Messages of webhooks: where they may go, and how they are signed (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.records import Message

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
