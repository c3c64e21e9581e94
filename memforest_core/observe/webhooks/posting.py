"""Posts a message: to an address that was checked, without redirects, within a time."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.addresses import checked_url, is_public
from memforest_core.observe.webhooks.records import GONE, Outcome
from memforest_core.settings import WebhookSettings

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
