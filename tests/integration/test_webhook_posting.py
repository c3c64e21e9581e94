"""Posting over real sockets: TLS under the name of the URL, and names that lead nowhere."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from memforest_core.observe.webhooks.posting import Poster
from memforest_core.settings import WebhookSettings
from tests.harness.receiver import receiver


def test_a_name_that_no_resolver_takes_is_an_outcome() -> None:
    assert Poster(WebhookSettings()).post(f"https://{'x' * 70}.com/", {}, b"{}").code == "unreachable"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of hooks.example and its key, in one file."""
    directory = tmp_path_factory.mktemp("tls")
    made = directory / "both.pem"
    key, certificate = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hooks.example"]
    command += ["-addext", "subjectAltName=DNS:hooks.example", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    made.write_text(key.read_text() + certificate.read_text())
    return made


@pytest.mark.parametrize("name, code", [("hooks.example", None), ("other.example", "unreachable")])
def test_tls_and_the_host_header_keep_the_name(certified: Path, name: str, code: str | None) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certified)
    requested: list[str] = []
    server.sni_callback = lambda _, given, __: requested.append(given)
    client = ssl.create_default_context(cafile=str(certified))
    with receiver(tls=server) as reported:
        port = reported.url.split(":")[2].split("/")[0]
        found = Poster(WebhookSettings(allow_private=True), lambda host, port: ["127.0.0.1"], client)
        outcome = found.post(f"https://{name}:{port}/hook", {"x-own": "1"}, b"{}")
    assert (outcome.code, requested) == (code, [name])
    assert [headers["host"] for headers, _ in reported.got] == ([f"{name}:{port}"] if code is None else [])
