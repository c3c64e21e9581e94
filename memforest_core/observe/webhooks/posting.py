"""Posts deliveries: each is claimed, posted without a lock to a checked address, and stored as done or to retry."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import httpcore

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.records import DISABLED, GONE, Message, Outcome
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.observe.webhooks.service import body_of, checked_url, headers_of, is_public
from memforest_core.settings import WebhookSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkState
from memforest_core.work.rows.job_rows import VERSION
from memforest_core.work.telemetry import SILENT, Telemetry

MOST_READ = 16_384
"""Bytes of an answer that are read; what it says does not matter."""
STATUS_GONE = 410
BUSY = (429, 503)
"""Answers whose Retry-After counts."""
LONGEST_WAIT_S = 86_400.0

Resolve = Callable[[str, int], Sequence[str]]
"""The IP addresses of a host."""


class AddressRefused(Exception):
    """A name leads to an address that is not public."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The IP addresses of a host, as the system's resolver finds them. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("a name that no resolver takes") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Poster:
    """Posts messages. Thread-safe."""

    def __init__(
        self,
        settings: WebhookSettings,
        resolve: Resolve = resolve,
        ssl_context: ssl.SSLContext | None = None,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        """``resolve``, ``ssl_context`` and ``network`` are the system's, certifi's and sockets unless given."""
        self._settings = settings
        self._resolve = resolve
        self._ssl = ssl_context
        self._network = network or httpcore.SyncBackend()

    def post(self, url: str, headers: dict[str, str], body: bytes) -> Outcome:
        """Post once. What goes wrong is the outcome, never an error."""
        until = time.monotonic() + self._settings.timeout_s
        checked = _CheckedNetwork(self._network, self._resolve, until, self._settings.allow_private)
        try:
            # The setting may have changed since the endpoint was made.
            checked_url(url, allow_private=self._settings.allow_private)
            with (
                httpcore.ConnectionPool(ssl_context=self._ssl, network_backend=checked, http2=False) as pool,
                pool.stream("POST", url, headers=list(headers.items()), content=body) as answer,
            ):
                read = 0
                for chunk in answer.iter_stream():
                    read += len(chunk)
                    if read >= MOST_READ:
                        break
                return _outcome(answer)
        except InvalidInput as error:
            return Outcome(code="address_refused", text=error.message)
        except AddressRefused:
            text = "Its name leads to an address that is not public: see the setting webhooks.allow_private."
            return Outcome(code="address_refused", text=text)
        except httpcore.TimeoutException:
            return Outcome(code="timed_out", text=f"There was no answer within {self._settings.timeout_s:g} s.")
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            return Outcome(code="unreachable", text=f"It could not be reached ({type(error).__name__}).")


def _outcome(answer: httpcore.Response) -> Outcome:
    status = answer.status
    if 200 <= status < 300:
        return Outcome(status)
    text = f"It answered {status}."
    if status == STATUS_GONE:
        return Outcome(status, GONE, f"{text} The endpoint is disabled.")
    if 300 <= status < 400:
        text += " Redirects are not followed: give the endpoint its new address."
    return Outcome(status, "refused", text, retry_after_s=_retry_after(answer) if status in BUSY else 0.0)


def _retry_after(answer: httpcore.Response) -> float:
    """The seconds of Retry-After; dates and nonsense count as none."""
    given = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"")
    return min(float(given), LONGEST_WAIT_S) if given.isdigit() else 0.0


class _CheckedNetwork(httpcore.NetworkBackend):
    """Looks a name up once, checks all its addresses, and connects to one of those: no second look-up can differ.

    TLS and the Host header keep the name.
    """

    def __init__(self, inner: httpcore.NetworkBackend, resolve: Resolve, until: float, allow_private: bool) -> None:
        self._inner = inner
        self._resolve = resolve
        self._until = until
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = self._resolve(host, port)
        if not self._allow_private and not all(map(is_public, addresses)):
            raise AddressRefused(host)
        failed: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            try:
                stream = self._inner.connect_tcp(address, port, _left(self._until), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            else:
                return _Until(stream, self._until)
        raise failed


class _Until(httpcore.NetworkStream):
    """A stream whose reads and writes together end at a moment: an answer byte by byte takes no longer."""

    def __init__(self, inner: httpcore.NetworkStream, until: float) -> None:
        self._inner = inner
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._until))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(self._until))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Until(self._inner.start_tls(ssl_context, server_hostname, _left(self._until)), self._until)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(until: float) -> float:
    """The seconds that are left. Raises ReadTimeout when none are."""
    left = until - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time is over")
    return left


STEP = "webhook"
RETRY_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds between two tries: the schedule that Standard Webhooks gives, over three days."""
JITTER = 0.2
"""Share of a wait that is added at random, so that what failed together is not tried together."""
AT_ONCE = 16
"""Deliveries of a tenant that are under way: one worker posts them side by side."""
LEASE_S = 180.0
"""Longer than a try may take, with the time that a resolver takes to give up."""
CHECKED = 200
"""Held deliveries that one unit checks."""
RECHECK_S = 1.0
SLOWER = 20.0
"""What is held is re-checked after a second and a twentieth of its age."""
DROPPED = 1_000
"""Deliveries that are deleted in one transaction."""
DAY_S = 86_400.0


def next_wait(attempts: int, requested_s: float, jitter: float) -> float | None:
    """Seconds until the next try after so many, with jitter in [0, 1); None after the last one.

    ``requested_s`` is the receiver's Retry-After.
    """
    if attempts > len(RETRY_S):
        return None
    return max(RETRY_S[attempts - 1], requested_s) * (1.0 + JITTER * jitter)


@dataclass(frozen=True, slots=True)
class PostingWorker:
    """The workers' side of webhooks. Thread-safe."""

    engine: Engine
    settings: WebhookSettings
    poster: Poster
    rng: random.Random
    telemetry: Telemetry = SILENT

    def run_one(self, tenant: TenantId, worker: WorkerId) -> bool:
        """Check what is held, and deliver what is due, at most ``AT_ONCE``; whether anything changed.

        Raises StoreUnavailable.
        """
        with WebhookRows.opened(self.engine, tenant) as rows:
            released = rows.check_held(CHECKED, RECHECK_S, SLOWER)
        with WebhookRows.opened(self.engine, tenant) as rows:
            token, messages = rows.claim(worker, AT_ONCE, LEASE_S)
        if messages:
            with ThreadPoolExecutor(len(messages), thread_name_prefix="memforest-webhook") as threads:
                posts = {threads.submit(self._post, tenant, message): message for message in messages}
                for done in as_completed(posts):
                    self._settle(tenant, token, posts[done], done.result())
        return bool(released or messages)

    def drop_past(self, tenant: TenantId) -> int:
        """Delete the tenant's deliveries that were over longer ago than ``webhooks.retain_days``; how many.

        Raises StoreUnavailable.
        """
        total = 0
        while True:
            with WebhookRows.opened(self.engine, tenant) as rows:
                dropped = rows.drop_past(DROPPED)
            total += dropped
            if dropped < DROPPED:
                return total

    def _post(self, tenant: TenantId, message: Message) -> Outcome:
        if not message.enabled:
            return Outcome(code=DISABLED, text="Its endpoint is disabled.")
        body = body_of(tenant, message)
        headers = {"content-type": "application/json", "user-agent": f"memforest/{VERSION}"}
        return self.poster.post(message.url, headers | headers_of(message, body, int(time.time())), body)

    @repeated
    def _settle(self, tenant: TenantId, token: LeaseToken, message: Message, outcome: Outcome) -> None:
        stored_s = self.settings.retain_days * DAY_S
        wait_s = None
        if outcome.code not in (None, DISABLED, GONE):
            wait_s = next_wait(message.attempts, outcome.retry_after_s, self.rng.random())
        state = WorkState.DONE if outcome.code is None else WorkState.DEAD if wait_s is None else WorkState.READY
        with WebhookRows.opened(self.engine, tenant) as rows:
            if outcome.code == GONE:
                rows.set_enabled(message.endpoint_id, False)
            rows.settle(token, message.id, state, outcome, stored_s if wait_s is None else wait_s)
        if outcome.code is not None:
            count = self.telemetry.buried if wait_s is None else self.telemetry.retried
            count(STEP, tenant, outcome.code)
