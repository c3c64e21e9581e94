"""What is masked in a text, what is not, and that a masked text stays as it is."""

from __future__ import annotations

import json
import textwrap
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.client.embedded.node import addresses
from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.ingest.accept.redaction import NOTHING, Redactor, open_redactor
from memforest_core.settings import RedactSettings, load_settings
from tests.harness.tables import cases

ALL: dict[str, Any] = {"kinds": ("api_key", "card", "iban", "email"), "patterns": {"ticket": r"(?i)hd-\d{4,}"}}
KEY, LINE = "Ab3dEf6hIj9kLm2nOp5q", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"


def redactor(**settings: Any) -> Redactor:
    return open_redactor(RedactSettings(**(settings or ALL)))


@pytest.mark.parametrize(
    ("text", "masked"),
    cases(f"""
use sk-{KEY}{KEY}, please => use [api key], please
'sk-ant-api03-{KEY}-x' => '[api key]'
ghp_{KEY}{KEY[:16]} and github_pat_{KEY}_{KEY} => [api key] and [api key]
glpat-{KEY}. xoxb-123456789012-{KEY} => [api key]. [api key]
AKIAABCDEFGHIJKLMNOP:{KEY}{KEY} => [api key]:[api key]
the AWS secret is {KEY}/{KEY[1:]}! => the AWS secret is [api key]!
hf_{KEY}{KEY} AIza{KEY}{KEY[:15]} sk_live_{KEY} => [api key] [api key] [api key]
eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0xx.{KEY} => [api key]
-----BEGIN RSA PRIVATE KEY-----\\n{LINE}\\n{LINE}\\nab==\\n-----END RSA PRIVATE KEY-----\\n => [api key]\\n
4111 1111 1111 1111, 3782-822463-10005 or No.5555555555554444 => [card number], [card number] or No.[card number]
pay to de89370400440532013000 => pay to [IBAN]
GB29 NWBK 6016 1331 9268 19 or cash => [IBAN] or cash
<ann.o'neil+x@mail.example.org>, jörg@müller.example. 写信给bob@x.org => <[email address]>, [email address]. 写信给[email address]
Was it HD-12345 or hd-99? => Was it [ticket] or hd-99?
the [api key] of a@b.example is [ticket] => the [api key] of [email address] is [ticket]
"""),
)
def test_what_is_secret_is_masked_once(text: str, masked: str) -> None:
    own = redactor()
    found, counts = own.masked(text)
    assert sum(counts.values()) == masked.count("[") - text.count("[")
    assert found == masked
    assert own.masked(found) == (masked, Counter())


@pytest.mark.parametrize(
    "text",
    cases("""
a task-force of sk-learn users in sk-internationalization
git clone git@github.com:ann/repo.git and npm i react@18.2.0
4111 1111 1111 1112, 0800 1111 2222 3333, 1760000000000, 2024-05-12 10:15
commit 587042d71ad09297bcf84ec9d25e242f6c3ddc56, sha256:0c8816bd35c57a2c68fee837d85ec15d
my secret commit is 587042d71ad09297bcf84ec9d25e242f6c3ddc56, says @ann@mastodon.example
DE89 3704 0044 0532 0130 01 is wrong, and so are XX89370400440532013000 and DE893704004405320130001
-----BEGIN PUBLIC KEY----- and what does -----BEGIN PRIVATE KEY----- mean?
ISBN 978-3-16-148410-0 and 52.520008
"""),
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redactor().masked(text) == (text, Counter())


@given(st.text(alphabet="ask-4 1@.exmpl[]HD3705\n", max_size=60), st.text(max_size=20))
def test_a_masked_text_is_masked_to_itself(text: str, more: str) -> None:
    own = redactor(kinds=ALL["kinds"], patterns={"a": "[a-k]+", "key": r"key|\]|1*"})
    masked = own.masked(f"{text} a@b.example 4111111111111111 {more.replace(chr(0), '')}")[0]
    assert own.masked(masked) == (masked, Counter())


@pytest.mark.parametrize(
    "part", ["DE89 ", "DE12-A ", "a@a.", "4111 ", "-----BEGIN PRIVATE KEY-----", "eyJ", "aaaaaaaaaaaaaaaa"]
)
def test_no_text_takes_long(part: str) -> None:
    text, started = part * (40_000 // len(part)), time.perf_counter()
    redactor(kinds=ALL["kinds"], patterns={"evil": r"(a|aa)+!|(a+)+$x"}).masked(text)
    assert time.perf_counter() - started < 5.0


def failing(text: str) -> str:
    raise KeyError(text)


@pytest.mark.parametrize(("function", "said"), [(failing, "gave KeyError"), (lambda text: None, "gave NoneType")])
def test_a_function_that_fails_refuses_without_the_text(function: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        redactor(function=function).masked("my secret")
    assert (caught.value.code, caught.value.__context__) == ("redaction_failed", None)
    assert "secret" not in caught.value.message


def test_a_function_sees_what_is_left_and_is_counted() -> None:
    seen: list[str] = []
    own = redactor(kinds=("email",), function=lambda text: seen.append(text) or text.replace("Bob", "[name]"))
    assert own.masked("Bob, a@b.example") == ("[name], [email address]", Counter(email=1, function=1))
    assert seen == ["Bob, [email address]"]
    counts: Counter[str] = Counter()
    assert own.values({"to": ["x@y.example", 5], "x@y.example": None}, counts) == {
        "to": ["[email address]", 5],
        "x@y.example": None,
    }
    assert NOTHING.masked("a@b.example\ud800") == ("a@b.example\ud800", Counter())


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KINDS", '["cards"]', "Input should be 'api_key'"),
        ("PATTERNS", '{"[x]": "x"}', "should match pattern"),
        ("FUNCTION", "nowhere.mask", "No module named"),
        ("PATTERNS", r'{"twice": "(a)\\1"}', "without lookarounds and backreferences"),
    ],
)
def test_settings_that_can_not_be_used_are_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"MEMFOREST_ACCEPT__REDACT__{variable}", value)
    with pytest.raises(InvalidSettings, match=said):
        open_redactor(load_settings().accept.redact)


def test_other_processes_of_a_node_mask_as_it_does() -> None:
    """Given kinds, patterns and a function that can be imported, then the settings that a node publishes have them."""
    for function, name in ((textwrap.dedent, "textwrap.dedent"), (lambda text: text, None)):
        redact = {"kinds": ["email"], "patterns": {"ticket": "HD-.*"}, "function": function}
        published = json.loads(json.dumps(addresses(load_settings(accept={"redact": redact}))))
        assert published["accept"]["redact"].get("function") == name
        assert load_settings(**published).accept.redact.patterns == redact["patterns"]
    assert "accept" not in addresses(load_settings())
