"""Messages and signatures as Standard Webhooks 1.0 has them (its spec/standard-webhooks.md)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence

from memforest_core.domain.ids import TenantId
from memforest_core.observe.webhooks.records import Message

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
