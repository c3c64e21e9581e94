"""Posting: to the address that was checked and no other, under the name that was given, within its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import httpcore
import pytest

from memforest_core.observe.webhooks.posting import Poster
from memforest_core.settings import WebhookSettings

OK = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"


class Names:
    """A resolver whose answer differs each time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.queried: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.queried.append(host)
        return self.answers.pop(0)


class Network(httpcore.MockBackend):
    """A network that answers, and remembers where it was to connect to."""

    def __init__(self, unavailable: Iterable[str] = ()) -> None:
        super().__init__([OK])
        self.unavailable = set(unavailable)
        self.connected: list[str] = []

    def connect_tcp(self, host: str, *args: object, **options: object) -> httpcore.NetworkStream:
        self.connected.append(host)
        if host in self.unavailable:
            raise httpcore.ConnectError("unavailable")
        return super().connect_tcp(host, *args, **options)  # type: ignore[arg-type]


def poster(names: Names, network: httpcore.NetworkBackend, **settings: object) -> Poster:
    return Poster(WebhookSettings(**settings), names, network=network)  # type: ignore[arg-type]


def test_a_name_is_looked_up_once_and_its_address_is_connected_to() -> None:
    names, network = Names(["93.184.216.34"], ["127.0.0.1"]), Network()
    assert poster(names, network).post("https://example.com/hook", {}, b"{}").status == 204
    assert (names.queried, network.connected) == (["example.com"], ["93.184.216.34"])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"])
def test_one_private_address_among_public_ones_is_enough_to_refuse(address: str) -> None:
    names, network = Names(["93.184.216.34", address]), Network()
    outcome = poster(names, network).post("https://example.com/hook", {}, b"{}")
    assert (outcome.code, outcome.status, network.connected) == ("address_refused", None, [])


def test_plain_http_is_refused_when_the_setting_is_taken_back() -> None:
    network = Network()
    assert poster(Names(), network).post("http://example.com/hook", {}, b"{}").code == "address_refused"
    assert network.connected == []


def test_the_next_address_is_tried_when_one_is_unavailable() -> None:
    network = Network(unavailable=["93.184.216.34"])
    outcome = poster(Names(["93.184.216.34", "93.184.216.35"]), network).post("https://example.com/", {}, b"{}")
    assert (outcome.status, network.connected) == (204, ["93.184.216.34", "93.184.216.35"])


@pytest.mark.parametrize("addresses", [[], ["93.184.216.34"]])
def test_an_unreachable_address_is_an_outcome(addresses: list[str]) -> None:
    outcome = poster(Names(addresses), Network(unavailable=addresses)).post("https://example.com/", {}, b"{}")
    assert outcome.code == "unreachable"


def test_a_redirect_is_not_followed() -> None:
    network = Network()
    network._buffer = [b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://b.com/\r\ncontent-length: 0\r\n\r\n"]
    outcome = poster(Names(["93.184.216.34"]), network).post("https://example.com/", {}, b"{}")
    assert (outcome.status, outcome.code, network.connected) == (307, "refused", ["93.184.216.34"])


class Dripping(httpcore.MockStream):
    """An answer that comes byte by byte, each within any time for one read."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        time.sleep(0.05)
        return b"x"


class DrippingNetwork(httpcore.MockBackend):
    def connect_tcp(self, *args: object, **options: object) -> httpcore.NetworkStream:
        return Dripping([])


def test_an_answer_byte_by_byte_ends_at_the_time_for_all_of_it() -> None:
    started = time.monotonic()
    outcome = poster(Names(["93.184.216.34"]), DrippingNetwork([]), timeout_s=0.3).post("https://a.com/", {}, b"{}")
    assert outcome.code == "timed_out"
    assert time.monotonic() - started < 2.0


def test_a_long_answer_is_not_read_to_its_end() -> None:
    body = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n"

    class Long(httpcore.MockBackend):
        def connect_tcp(self, *args: object, **options: object) -> httpcore.NetworkStream:
            return httpcore.MockStream([body, *[b"x" * 10_000] * 3])

    assert poster(Names(["93.184.216.34"]), Long([])).post("https://a.com/", {}, b"{}").status == 200
