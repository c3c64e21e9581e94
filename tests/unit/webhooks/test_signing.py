"""Signatures as the official library of Standard Webhooks makes and checks them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from standardwebhooks import Webhook

from memforest_core.domain.ids import TenantId
from memforest_core.observe.webhooks.records import Message
from memforest_core.observe.webhooks.service import PREFIX, body_of, headers_of, new_secret, signatures


def message(*secrets: str) -> Message:
    """One of this moment: the official library refuses what is five minutes old."""
    about, now = {"session_id": "s1", "owner": "Zoë"}, datetime.now(UTC)
    return Message(uuid4(), uuid4(), "session.ready", about, now, 1, "https://example.com", secrets, True)


def test_the_official_library_accepts_a_message() -> None:
    secret = new_secret()
    one = message(secret)
    body = body_of(TenantId("shop"), one)
    headers = headers_of(one, body, int(one.created_at.timestamp()))

    assert Webhook(secret).verify(body, headers) == {
        "type": "session.ready",
        "timestamp": one.created_at.isoformat(),
        "data": {"tenant": "shop", "owner": "Zoë", "session_id": "s1"},
    }
    assert headers["webhook-signature"] == Webhook(secret).sign(str(one.id), one.created_at, body.decode())


def test_a_known_signature() -> None:
    secret = f"{PREFIX}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = signatures([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_is_as_long_as_the_specification_wants() -> None:
    from base64 import b64decode

    assert len({new_secret() for _ in range(10)}) == 10
    assert 24 <= len(b64decode(new_secret().removeprefix(PREFIX))) <= 64
