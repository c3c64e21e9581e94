"""One request of a chat API and its answer as turns: what is remembered goes in, what was said is stored, once.

An app sends the whole conversation each time. What follows the last answer is new; each turn's id is made of what was
said up to it, so that a request that is sent again adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from memforest_core.assistant.context.records import Context
from memforest_core.domain.chat_messages import TurnInput, turn_fields
from memforest_core.domain.text import clipped
from memforest_core.errors import InvalidInput, MemForestError, NotFound, StoreUnavailable
from memforest_core.recall.question import MAX_QUESTION_CHARS

T = TypeVar("T")
Message: TypeAlias = Mapping[str, Any]
Calls: TypeAlias = Generator[tuple[str, tuple[Any, ...], dict[str, Any]], Any, T]
"""Steps that yield calls of a memory (a method's name and arguments), get what they return, and end with a result."""

INSTRUCTIONS = ("system", "developer")
"""Roles of messages that the app writes: they are sent on and not stored."""
ANSWER = "assistant"
MAX_MESSAGES = 4_096
"""Of one request: reading more would keep the other requests of a server waiting."""
_READ = ("role", "content", "name", "tool_calls", "function_call", "tool_call_id", "refusal", "audio")


@dataclass(slots=True)
class Prepared:
    """A request that can be sent to a model."""

    session: str | None
    """The session that its turns are stored in."""
    messages: list[Message] = field(default_factory=list)
    context: Context | None = None
    """What was added; None when the store did not answer."""
    last: str = ""
    """The id of its last turn."""
    degraded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of an owner. Without a ``session`` it belongs to the one that runs."""

    owner: str
    session: str | None
    messages: Sequence[Message]
    max_tokens: int | None = None
    """Of the memory that is added; context.max_tokens unless given."""
    retried: bool = False
    """The client says that it sends the request again."""

    def __post_init__(self) -> None:
        """Raises InvalidInput for what are no messages."""
        given = self.messages
        if not isinstance(given, list | tuple) or not given or not all(isinstance(each, Mapping) for each in given):
            raise InvalidInput("Give messages: a list of objects with role and content.", code="invalid_turns")
        if len(given) > MAX_MESSAGES:
            raise InvalidInput(f"Send at most {MAX_MESSAGES} messages: the newest ones.", code="too_many_turns")

    def prepared(self) -> Calls[Prepared]:
        """Read what is remembered, then store what is new. Raises as ``MemForest.append``; nothing is sent then."""
        made = Prepared(self.session)
        yield from self.remembered(made, whole=self._new[0] > 0)
        yield from self.stored(made)
        return made

    @property
    def _new(self) -> tuple[int, int]:
        """Where the messages behind the last answer begin and end; an answer at the end is one to be continued."""
        said = [place for place, each in enumerate(self.messages, 1) if each.get("role") != ANSWER]
        end = said[-1] if said else 0
        answers = (place for place, each in enumerate(self.messages[:end], 1) if each.get("role") == ANSWER)
        return max(answers, default=0), end

    def stored(self, made: Prepared) -> Calls[None]:
        """Store what is new. Raises as ``MemForest.append``."""
        at, end = self._new
        fresh = _turns(self.messages[at:end])
        made.last = _chained("", *_turns(self.messages[:at])) if at else (yield from self._before(fresh))
        for turn in fresh:
            made.last = turn["id"] = _chained(made.last, turn)
            made.session = (yield "append", (self.owner, made.session, turn), {}).session_id

    def concluded(self, made: Prepared, answer: Message) -> Calls[str | None]:
        """Store the whole answer; a sentence when that is not possible."""
        for turn in _turns([answer]):
            turn["id"] = _chained(made.last, turn)
            try:
                made.session = (yield "append", (self.owner, made.session, turn), {}).session_id
            except MemForestError as error:
                return f"The answer is not stored: {error.message}"
        return None

    def remembered(self, made: Prepared, *, whole: bool) -> Calls[None]:
        """Add what is remembered behind the app's instructions; a ``whole`` conversation needs no window of it.

        Raises InvalidInput. A store that does not answer is a sentence in ``degraded``.
        """
        users = [turn["content"] for turn in _turns(each for each in self.messages if each.get("role") == "user")]
        question = clipped(str(users[-1]).strip(), MAX_QUESTION_CHARS) if users else None
        # A session of this id has no turns: so no window is made.
        session = uuid4().hex if whole else self.session
        remembered: list[dict[str, str]] = []
        try:
            context: Context = yield "context", (self.owner, session, question), {"max_tokens": self.max_tokens}
        except StoreUnavailable as error:
            made.degraded.append(f"Nothing is remembered: {error.message}")
        else:
            said = {str(turn["content"]).strip() for turn in _turns(self.messages)}
            parts = tuple(part for part in context.parts if part.text.partition(": ")[2].strip() not in said)
            made.context = replace(context, parts=parts)
            made.degraded += context.degraded
            remembered = made.context.messages()
        count = len(self.messages)
        at = next((n for n, each in enumerate(self.messages) if each.get("role") not in INSTRUCTIONS), count)
        made.messages = [*self.messages[:at], *remembered, *self.messages[at:]]

    def _before(self, fresh: Sequence[TurnInput]) -> Calls[str]:
        """The id of the stored turn that ``fresh`` ones follow, in a request without an answer: an app's first, or that
        of an app which sends the newest message only. Those that wait for their answer already are the stored ones."""
        name, tail, count = self.session, [], len(fresh)
        with suppress(NotFound):
            if name is None:
                running = yield "session_current", (self.owner,), {}
                name = running and running.session_id
            if name is not None:
                tail = (yield "turns", (self.owner, name), {"last": count + 2}).items
        said = [turn["content"] for turn in fresh]
        ends = [len(tail)]
        if (self.retried or self._new[1] < len(self.messages)) and tail and tail[-1].role == ANSWER:
            ends.append(len(tail) - 1)
        for end in ends:
            # When an answer failed, more may follow what waits for it.
            for known in range(min(count, end), 0, -1) if end == len(tail) else [count]:
                before = tail[end - known - 1].id if end > known else ""
                ids = [_chained(before, *fresh[: at + 1]) for at in range(known)]
                # A masked text differs from what was sent; its id was made from that.
                if 0 < known <= end and all(
                    turn.content == text or turn.id == id_
                    for turn, text, id_ in zip(tail[end - known : end], said, ids, strict=False)
                ):
                    return before
        return tail[-1].id if tail else ""


def _turns(messages: Any) -> list[TurnInput]:
    """Messages as turns, without the app's instructions and what has no words. Raises InvalidInput."""
    found: list[TurnInput] = []
    for number, message in enumerate(messages, 1):
        if message.get("role") in INSTRUCTIONS:
            continue
        given = {name: message[name] for name in _READ if message.get(name) is not None}
        turn: Any = dict(turn_fields(given, f"Message {number}"))
        if str(turn.get("content", "")).strip():
            found.append(turn)
    return found


def _chained(before: str, *turns: TurnInput) -> str:
    """The id of the last of ``turns`` that follow the turn of the id ``before``."""
    for turn in turns:
        said = [before, turn.get("role"), turn.get("name"), turn["content"]]
        before = f"chat-{sha256(json.dumps(said).encode()).hexdigest()[:32]}"
    return before


async def run_async(memory: Any, calls: Calls[T]) -> T:
    """The result of steps, called on a memory of any face."""
    step, value = calls.send, None
    while True:
        try:
            name, arguments, named = step(value)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        try:
            called = getattr(memory, name)(*arguments, **named)
            step, value = calls.send, await called if isawaitable(called) else called
        except MemForestError as error:
            step, value = calls.throw, error


def run(memory: Any, calls: Calls[T]) -> T:
    """The same on a MemForest or a RemoteMemForest, whose calls leave nothing to wait for."""
    try:
        run_async(memory, calls).send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    raise InvalidInput("Give a MemForest or a RemoteMemForest: this memory is asynchronous.", code="invalid_memory")


class Assembled:
    """The message that the parts of a stream make, of the first choice."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: dict[int, dict[str, str]] = {}
        self.single = True
        """Whether it is the only choice."""

    def add(self, part: Message) -> None:
        """The next part (``chat.completion.chunk``)."""
        for choice in part.get("choices", ()):
            if choice.get("index", 0) != 0:
                self.single = False
                continue
            delta = choice.get("delta") or {}
            for name, texts in self._texts.items():
                texts.append(delta.get(name) or "")
            for call in delta.get("tool_calls") or ():
                called = self._calls.setdefault(call.get("index", 0), {"name": "", "arguments": ""})
                for name in called:
                    called[name] += (call.get("function") or {}).get(name) or ""

    @property
    def message(self) -> dict[str, Any]:
        """All of it."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        return {"role": ANSWER, **texts, "tool_calls": [{"function": call} for call in self._calls.values()]}
