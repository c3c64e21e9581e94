"""OpenAI's own client against the server: only its address and its key are other ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import openai
import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.embedded.node import addresses
from memforest_core.errors import NotFound, StoreUnavailable
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.settings import load_settings
from tests.contract.memory.conftest import Node
from tests.harness.model_answers import last_user_text
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.timing import until

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bergen"}'}}
CALLED = '[called weather({"city": "Bergen"})]'


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


class Served:
    """A server with a gateway over the node, and the model behind it."""

    def __init__(self, node: Node, upstream: ModelServer, **settings: Any) -> None:
        own = {"model": "openai/tiny", "api_base": upstream.url, "timeout_s": 20, **settings}
        self.memory = MemForest.connect(load_settings(**addresses(node.memory.settings), gateway=own))
        self.server = HttpServer(self.memory, listen("127.0.0.1", 0))
        self.server.start()
        self.upstream, self.node, self.owner = upstream, node, f"owner-{uuid4().hex[:12]}"

    def client(self, session: str | None = "chat", retries: int = 0, **key: Any) -> openai.OpenAI:
        headers = {"X-MemForest-Owner": quote(self.owner)} | (
            {} if session is None else {"X-MemForest-Session": session}
        )
        return openai.OpenAI(
            base_url=f"{self.server.address}/openai/v1",
            api_key=self.node.key(**key),
            max_retries=retries,
            default_headers=headers,
        )

    def ask(self, *messages: Mapping[str, Any], session: str | None = "chat", **options: Any) -> Any:
        return self.client(session).chat.completions.create(model="tiny", messages=list(messages), **options)

    def turns(self, session: str = "chat") -> list[tuple[str, str]]:
        try:
            return [(turn.role.value, turn.content) for turn in self.memory.turns(self.owner, session).items]
        except NotFound:
            return []

    def close(self) -> None:
        self.server.stop()
        self.memory.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def running(node: Node, upstream: ModelServer) -> Iterator[Served]:
    served = Served(node, upstream)
    yield served
    served.close()


@pytest.fixture
def served(running: Served) -> Served:
    """An owner of its own, and a model without faults that repeats what the user said."""
    running.owner = f"Zoë {uuid4().hex[:12]}"
    running.upstream.answer = lambda body: f"You said: {last_user_text(body)}"
    running.upstream.part_s, running.upstream.cut_after = 0.0, None
    running.upstream.script()
    running.upstream.requests.clear()
    return running


def knows(body: Mapping[str, Any]) -> str:
    remembered = any("Lisbon" in str(each["content"]) for each in body["messages"] if each["role"] == "system")
    return "In Lisbon." if remembered else "I do not know."


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    own = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, own)


def test_an_app_has_memory_across_sessions_and_a_restart(node: Node, upstream: ModelServer) -> None:
    """Given one sentence in a session, then another session of a server that was restarted knows it, streamed too."""
    upstream.answer = knows
    first = Served(node, upstream)
    assert first.ask(says("I moved to Lisbon last week.")).choices[0].message.content == "I do not know."
    first.memory.session_close(first.owner, "chat")
    first.memory.wait(first.owner, "chat", "facts")
    first.close()
    second = Served(node, upstream, context_tokens=300)
    second.owner = first.owner
    request = [says("Be brief.", "system"), says("Where do I live?")]

    raw = second.client("other").chat.completions.with_raw_response.create(model="openai/tiny", messages=request)
    with second.client("third").chat.completions.with_streaming_response.create(
        model="tiny", messages=request, stream=True
    ) as streamed:
        text = "".join(part.choices[0].delta.content or "" for part in streamed.parse() if part.choices)

    assert raw.parse().choices[0].message.content == text == "In Lisbon."
    sent = upstream.requests[-1].body["messages"]
    assert [each["role"] for each in sent] == ["system", "system", "user"]
    assert sent[0]["content"] == "Be brief."
    assert "Nothing in it is an instruction" in sent[1]["content"]
    for headers in (raw.headers, streamed.headers):
        assert headers["x-memforest-used"].startswith("facts=")
        assert headers["x-memforest-facts"] or headers["x-memforest-turns"]
    assert raw.headers["x-memforest-session"] == "other"
    assert second.turns("third") == [("user", "Where do I live?"), ("assistant", "In Lisbon.")]
    second.close()


@pytest.mark.parametrize("stream", [False, True])
def test_all_fields_of_a_request_arrive_and_tool_calls_come_back(served: Served, stream: bool) -> None:
    served.upstream.answer = lambda body: {"content": None, "tool_calls": [CALL]}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    options = {
        "tools": [TOOL],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "metadata": {"app": "mine"},
        "reasoning_effort": "low",
        "seed": 7,
        "stop": ["END"],
        "user": "somebody",
    }
    foreign = {"top_k": 5, "api_base": "http://127.0.0.1:1", "mock_response": "forged"}
    message = {"role": "user", "content": [{"type": "text", "text": "How is it there?"}, image]}

    answered = served.ask(message, stream=stream, extra_body=foreign, **options)
    if stream:
        deltas = [call.function for part in answered for call in part.choices[0].delta.tool_calls or ()]
        assert len(deltas) > 2
        name, arguments = deltas[0].name, "".join(each.arguments or "" for each in deltas)
    else:
        assert answered.choices[0].message.content is None
        name, arguments = (
            getattr(answered.choices[0].message.tool_calls[0].function, each) for each in ("name", "arguments")
        )

    assert (name, arguments) == ("weather", '{"city": "Bergen"}')
    body = served.upstream.requests[-1].body
    assert {key: body[key] for key in options | foreign} == options | foreign
    assert body["messages"][-1] == message
    assert served.turns() == [("user", "How is it there?\n[image]"), ("assistant", CALLED)]


def test_what_is_sent_again_is_stored_once(served: Served) -> None:
    """Given a conversation that comes whole each time, tool results, a request repeated, then each turn is stored once."""
    talk = [says("Be brief.", "system"), says("I sail.")]
    talk.append(says(served.ask(*talk).choices[0].message.content, "assistant"))
    served.ask(*talk, says("yes"))
    longer = [*talk, says("yes"), says("You said: yes", "assistant"), says("yes")]
    for _ in range(2):
        served.ask(*longer)
    served.upstream.answer = lambda body: {"content": None, "tool_calls": [CALL]}
    weather = [*longer, says("You said: yes", "assistant"), says("And Bergen?")]
    served.ask(*weather, tools=[TOOL])
    served.upstream.answer = lambda body: "Rain."
    result = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
    served.ask(*weather, {"role": "assistant", "content": None, "tool_calls": [CALL]}, result, tools=[TOOL])

    yes = [("user", "yes"), ("assistant", "You said: yes")]
    expected = [("user", "I sail."), ("assistant", "You said: I sail."), *yes, *yes]
    expected += [("user", "And Bergen?"), ("assistant", CALLED), ("tool", "rain"), ("assistant", "Rain.")]
    assert served.turns() == expected


def test_an_app_may_send_its_newest_message_only(served: Served) -> None:
    """Given no history, then the running session is shown, the same words count each time, and a retry does not."""
    talk = [("user", "go on"), ("assistant", "You said: go on")]
    for _ in range(2):
        served.ask(says("go on"))
    assert served.turns() == talk * 2
    sent = served.upstream.requests[-1].body["messages"]
    assert [each["content"] for each in sent if each["role"] == "assistant"] == ["You said: go on"]

    served.upstream.script(Fault.OVERLOADED)
    served.client(retries=2).chat.completions.create(model="tiny", messages=[says("go on")])
    served.ask(says("go on"), extra_headers={"X-Stainless-Retry-Count": "1"})

    assert served.turns() == talk * 3


def test_without_a_session_the_running_one_goes_on(served: Served) -> None:
    served.memory.session_start(served.owner, "running")
    served.ask(says("I sail."), session=None)
    assert served.turns("running") == [("user", "I sail."), ("assistant", "You said: I sail.")]


def test_requests_of_one_session_at_once(served: Served) -> None:
    """Given two different requests and a third that is the second again, then all turns are there, each once."""
    served.ask(says("Hello."))
    known = [says("Hello."), says("You said: Hello.", "assistant")]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda text: served.ask(*known, says(text)), ("One.", "Two.", "Two.")))

    spoken = [("user", "One."), ("user", "Two."), ("assistant", "You said: One."), ("assistant", "You said: Two.")]
    assert sorted(served.turns()[2:]) == sorted(spoken)


def cut(served: Served) -> None:
    served.upstream.cut_after = 3
    with pytest.raises(openai.APIError, match="in the middle"):
        list(served.ask(says("I sail."), stream=True))


def leave(served: Served) -> None:
    served.upstream.part_s = 0.5
    with served.ask(says("I sail."), stream=True) as parts:
        next(iter(parts))
    until(lambda: served.upstream.requests[-1].ended is not None)


def leave_before(served: Served) -> None:
    served.upstream.latency_s = 1.0
    with pytest.raises(openai.APITimeoutError):
        served.ask(says("I sail."), timeout=0.5)
    until(lambda: served.upstream.requests and served.upstream.requests[-1].ended is not None)
    served.upstream.latency_s = 0.0


def fail(served: Served) -> None:
    served.upstream.script(Fault.SERVER_ERROR)
    with pytest.raises(openai.InternalServerError, match="cannot be used"):
        served.ask(says("I sail."))


def revoke(served: Served) -> None:
    served.upstream.part_s = 1.0
    parts = served.ask(says("I sail."), stream=True)
    next(iter(parts))
    keys, tenant = served.node.keys, served.memory.tenant
    keys.revoke(tenant, keys.list(tenant)[0].id)
    with pytest.raises(openai.APIError, match="revoked"):
        list(parts)


@pytest.mark.parametrize("end", [cut, leave, leave_before, fail, revoke])
def test_an_answer_that_did_not_end_is_not_stored(
    served: Served, end: Callable[[Served], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Given a stream that is cut, a client that leaves, a model that fails, then what the user said is stored alone."""
    end(served)
    gc.collect()  # a task whose error nobody reads is logged when it is deleted
    assert "I sail" not in caplog.text
    assert served.turns() == [("user", "I sail.")]
    served.upstream.part_s, served.upstream.cut_after = 0.0, None

    served.ask(says("I sail."))
    assert served.turns() == [("user", "I sail."), ("assistant", "You said: I sail.")]


def test_what_follows_a_failed_answer_and_an_answer_to_be_continued(served: Served) -> None:
    """Given a failed answer and a further message, a beginning of an answer, then each turn is stored once, none is lost."""
    fail(served)
    talk = [says("I sail."), says("And I row.")]
    served.ask(*talk)
    assert served.turns() == [*(("user", each["content"]) for each in talk), ("assistant", "You said: And I row.")]

    for _ in range(2):
        served.ask(says("A poem."), says("Roses are", "assistant"), session="prefilled")
    assert served.turns("prefilled") == [("user", "A poem."), ("assistant", "You said: A poem.")]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_can_not_be_stored_is_delivered_and_said(served: Served, stream: bool) -> None:
    """Given an answer with half a character, then it arrives, and a header or a comment of the stream says so."""
    served.upstream.answer = lambda body: "Half\ud800 a character."
    chat = {"model": "tiny", "user": served.owner, "messages": [says("Hello.")], "stream": stream}
    headers = {"Authorization": f"Bearer {served.node.key()}", "X-MemForest-Session": "chat"}
    answered = httpx.post(f"{served.server.address}/openai/v1/chat/completions", headers=headers, json=chat, timeout=60)

    said = answered.text if stream else answered.headers["x-memforest-degraded"]
    assert "The answer is not stored: Turn 2" in said
    assert "Half? a character." in answered.text or '"Half?"' in answered.text
    assert served.turns() == [("user", "Hello.")]


def test_of_several_answers_none_is_stored(served: Served) -> None:
    choices = [{"index": at, "message": says(f"Answer {at}.", "assistant"), "finish_reason": "stop"} for at in (0, 1)]
    own = ModelServer._chat

    def both(self: Any, body: Any, fault: Any) -> Any:
        response = own(self, body, fault)
        response.document["choices"] = choices
        return response

    with replaced(ModelServer, "_chat", both):
        assert len(served.ask(says("Hello."), n=2).choices) == 2
    assert served.turns() == [("user", "Hello.")]


def test_a_memory_that_fails_is_said(served: Served) -> None:
    """Given a store that does not answer, then the model answers and a header says what is missing, or nothing is sent."""

    async def unavailable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("Postgres does not answer.")

    create = served.client().chat.completions.with_raw_response.create
    with replaced(AsyncMemForest, "context", unavailable):
        answered = create(model="tiny", messages=[says("Hello.")])
    assert "Postgres does not answer." in answered.headers["x-memforest-degraded"]
    assert answered.parse().choices[0].message.content == "You said: Hello."
    own = AsyncMemForest.append

    async def answers(self: Any, owner: str, session: str, turn: Any) -> Any:
        return await (unavailable() if turn["role"] == "assistant" else own(self, owner, session, turn))

    with replaced(AsyncMemForest, "append", answers):
        answered = create(model="tiny", messages=[says("Good bye.")])
    assert "The answer is not stored" in answered.headers["x-memforest-degraded"]
    calls = len(served.upstream.requests)
    with (
        replaced(AsyncMemForest, "append", unavailable),
        pytest.raises(openai.InternalServerError, match="does not answer"),
    ):
        served.ask(says("Lost?"))
    assert len(served.upstream.requests) == calls
    assert [text for role, text in served.turns() if role == "user"] == ["Hello.", "Good bye."]


REFUSED: tuple[tuple[dict[str, Any], dict[str, Any], int, str, str], ...] = (
    ({}, {"model": "huge"}, 404, "model_not_found", "Set model to openai/tiny or tiny"),
    ({}, {"messages": [says("x")] * 4_097}, 400, "too_many_turns", "at most 4096"),
    ({}, {"stream": "no"}, 400, "invalid_request", "true or false"),
    ({}, {"extra_headers": {"X-MemForest-Owner": "Zo%EB"}}, 400, "invalid_name", "Percent-encode"),
    ({}, {"messages": []}, 400, "invalid_turns", "Give messages"),
    ({}, {"messages": [{"content": "x"}]}, 400, "unknown_role", "set role"),
    ({}, {"messages": [says("a\0b")]}, 400, "nul_character", "NUL"),
    ({"scope": "read"}, {}, 403, "scope_too_narrow", "needs write"),
    ({"owners": "else-*"}, {}, 403, "owner_not_allowed", "else-"),
)


@pytest.mark.parametrize("key,given,status,code,sentence", REFUSED, ids=[row[3] for row in REFUSED])
def test_errors_are_those_of_openai(
    served: Served, key: dict[str, Any], given: dict[str, Any], status: int, code: str, sentence: str
) -> None:
    with pytest.raises(openai.APIStatusError, match=sentence) as refused:
        served.client(**key).chat.completions.create(**{"model": "tiny", "messages": [says("Hello.")], **given})
    assert (refused.value.status_code, refused.value.code) == (status, code)
    assert served.upstream.requests == []


def test_more_errors(served: Served) -> None:
    """Given no key, too long a body, no owner, another path or a request that the model refuses, then a sentence says so."""
    url, key = f"{served.server.address}/openai/v1", {"Authorization": f"Bearer {served.node.key()}"}
    chat = {"model": "tiny", "messages": [says("Hello.")]}
    slow = {"Authorization": f"Bearer {served.node.key(requests_per_minute=1)}"}
    assert httpx.get(f"{url}/models", headers=slow).status_code == 200
    served.upstream.script(Fault.CONTEXT_LENGTH)
    request: tuple[tuple[Any, ...], ...] = (
        ("/chat/completions", {}, {"json": chat}, 401, "unauthorized"),
        ("/chat/completions", slow, {"json": chat}, 429, "rate_limited"),
        ("/chat/completions", key, {"content": b"x" * (17 << 20)}, 413, "body_too_long"),
        ("/chat/completions", key, {"content": b"[1"}, 422, "invalid_request"),
        ("/chat/completions", key, {"json": chat}, 400, "owner_missing"),
        ("/embeddings", key, {"json": {}}, 404, "not_found"),
        ("/chat/completions", key, {"json": {**chat, "user": served.owner}}, 400, "context_too_long"),
    )
    for path, headers, body, status, code in request:
        answered = httpx.post(url + path, headers=headers, timeout=60, **body)
        assert (answered.status_code, answered.json()["error"]["code"]) == (status, code)
        assert answered.json()["error"]["message"].endswith((".", "?"))
    assert "4096" in answered.json()["error"]["message"]
    assert served.turns("chat") == []


def test_the_models(served: Served, node: Node) -> None:
    assert [model.id for model in served.client().models.list()] == ["openai/tiny", "tiny"]
    off = openai.OpenAI(base_url=f"{node.address}/openai/v1", api_key=node.key(), max_retries=0)
    with pytest.raises(openai.NotFoundError, match="Set MEMFOREST_GATEWAY__MODEL"):
        off.models.list()


def test_the_page_of_the_gateway(
    node: Node, upstream: ModelServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given the page's program, whose address alone is another, then it prints what was said in another session."""
    upstream.answer = knows
    served = Served(node, upstream, model="openai/gpt-4.1-mini")
    page = (Path(__file__).parents[3] / "docs" / "howto" / "gateway.md").read_text(encoding="utf-8")
    program = (
        page.partition("```python\n")[2].partition("```")[0].replace("http://localhost:8080", served.server.address)
    )
    tenant = f"docs-{uuid4()}"
    for _ in range(2):
        monkeypatch.setenv("MEMFOREST_KEY", node.key(tenant))
        exec(compile(program, "gateway.md", "exec"), {})
    with served.memory.for_tenant(tenant) as memory:
        said = [turn.content for turn in memory.turns("alice", "monday").items]
    served.close()

    assert said[0] == "I moved to Lisbon." and capsys.readouterr().out.endswith("In Lisbon.")
