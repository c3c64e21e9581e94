"""Which addresses webhooks may go to."""

from __future__ import annotations

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.observe.webhooks.service import checked_url, is_public

PRIVATE = """
    127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 0.0.0.0 169.254.169.254 100.64.0.1
    192.0.2.1 198.18.0.1 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 192.0.0.8 ::1 :: fe80::1
    fec0::1 3fff::1 3fff:fff::1 fe80::1%eth0 fc00::1 fd12:3456::1 ff02::1 ff0e::1 2001:db8::1 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::10.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::1 2002:0a00:0001::1
    2001:0:0a00:1::f5ff:fffe
    """
PUBLIC = "8.8.8.8 1.1.1.1 172.32.0.1 100.128.0.1 2606:4700:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8"


@pytest.mark.parametrize("address", [*PRIVATE.split(), *PUBLIC.split()])
def test_only_addresses_of_the_internet_are_taken(address: str) -> None:
    assert is_public(address) == (address in PUBLIC.split())


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com", "ftp://example.com", "example.com", "https://", "https://user:x@example.com",
        "https://example.com/#x", "https://example.com:0/", "https://example.com:99999/", "https://[::1", "https://10.0.0.1/",
        "https://[::ffff:10.0.0.1]/", "https://localhost/", "https://a.localhost", "https://example.com/" + "x" * 2_048,
        "https://exam ple.com", "https://example.com/\n", "https://exämple.com", "",
    ],
)  # fmt: skip
def test_a_url_that_is_not_taken_says_what_to_give(url: str) -> None:
    with pytest.raises(InvalidInput, match="Give url") as refused:
        checked_url(url, allow_private=False)
    assert refused.value.code == "invalid_url"


@pytest.mark.parametrize(
    ("url", "private"),
    [("https://example.com:8443/a?b=c", False), ("https://8.8.8.8/", False), ("http://10.0.0.1:8000/", True)],
)
def test_a_public_url_is_taken_and_where_the_setting_allows_it_a_private_one(url: str, private: bool) -> None:
    assert checked_url(url, allow_private=private) == url
