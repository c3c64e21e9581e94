"""The guard in front of the pages: where a login leads, and whose forms are accepted."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from memforest_core.service.explorer.login import next_page, own_form


def request(**headers: str) -> Request:
    given = {"host": "memory.example:8080", **headers}
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return Request({"type": "http", "method": "POST", "path": "/forget", "headers": named, "query_string": b""})


@pytest.mark.parametrize("wanted", ["/", "/owner?owner=bob", "/tree?owner=a%2Fb&tree=1"])
def test_a_login_leads_back_to_a_page_of_this_server(wanted: str) -> None:
    assert next_page(wanted) == wanted


@pytest.mark.parametrize(
    "wanted", ["", "owner", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x", "/\t/e"]
)
def test_a_login_leads_nowhere_else(wanted: str) -> None:
    assert next_page(wanted) == "/"


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-origin", "origin": "http://memory.example:8080"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://memory.example:8080"}, False),
        ({"origin": "http://memory.example:8080"}, True),
        ({"origin": "http://memory.example"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ],
)
def test_only_forms_of_our_own_pages_are_taken(headers: dict[str, str], own: bool) -> None:
    assert own_form(request(**headers)) is own
