"""litellm: its calls with memory, and a callback for an app that makes them itself.

Written against litellm 1.106 (``litellm.integrations.custom_logger``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import litellm
import structlog
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.redact_messages import should_redact_message_logging

from memforest_core.errors import InvalidSettings
from memforest_core.models.chat_relay import was_cut
from memforest_core.service.integrations.chat_exchange import Assembled, Exchange, Message, Prepared, run, run_async

if TYPE_CHECKING:
    from memforest_core.client.async_memory import AsyncMemForest
    from memforest_core.client.remote.remote_memory import AsyncRemoteMemForest
    from memforest_core.service.integrations.conversation import Memory

log = structlog.get_logger(__name__)

OWNER, SESSION = "memforest_owner", "memforest_session"
"""What the metadata of a call says to the callback."""


def completion(memory: Memory, *, owner: str, session: str | None = None, **options: Any) -> Any:
    """``litellm.completion`` with memory: the same ``options``, answers and errors; also with ``stream=True``.

    ``context_tokens`` of the options bounds what is added (context.max_tokens unless given). Without a ``session`` the
    turns go to the one that runs. The user's turns are stored before the call, the answer when it is whole;
    docs/howto/gateway.md has the rules. Raises as ``MemForest.append``, before the call.
    """
    exchange = _exchange(owner, session, options)
    made = run(memory, exchange.prepared())
    answer = litellm.completion(**options | {"messages": made.messages})
    if options.get("stream"):
        return _streamed(memory, exchange, made, answer)
    if len(answer.choices) == 1:
        _noted(exchange, made, run(memory, exchange.concluded(made, _message(answer))))
    return answer


async def acompletion(
    memory: AsyncMemForest | AsyncRemoteMemForest, *, owner: str, session: str | None = None, **options: Any
) -> Any:
    """``litellm.acompletion`` with memory; see ``completion``."""
    exchange = _exchange(owner, session, options)
    made = await run_async(memory, exchange.prepared())
    answer = await litellm.acompletion(**options | {"messages": made.messages})
    if options.get("stream"):
        return _streamed_async(memory, exchange, made, answer)
    if len(answer.choices) == 1:
        _noted(exchange, made, await run_async(memory, exchange.concluded(made, _message(answer))))
    return answer


class MemForestCallback(CustomLogger):
    """Stores the calls whose metadata name an owner: ``litellm.callbacks.append(MemForestCallback(memory))``.

    ``metadata={"memforest_owner": "alice", "memforest_session": "chat-1"}``. Asynchronous calls also get what is
    remembered. A call that fails stores nothing.
    """

    def __init__(self, memory: Memory, context_tokens: int | None = None) -> None:
        """Raises InvalidSettings while litellm hides what is said from callbacks."""
        super().__init__()
        self._memory = memory
        self._tokens = context_tokens
        if litellm.turn_off_message_logging:
            raise InvalidSettings(
                "litellm hides messages from callbacks here (litellm.turn_off_message_logging): use completion and"
                " acompletion of memforest_core.service.integrations.litellm, or set it to False."
            )

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """A call with what is remembered."""
        exchange = self._named(kwargs, kwargs.get("metadata"))
        if exchange is None:
            return None
        made = Prepared(exchange.session)
        await asyncio.to_thread(run, self._memory, exchange.remembered(made, whole=True))
        _noted(exchange, made)
        return {**kwargs, "messages": made.messages}

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Store what was said in a call that has ended."""
        exchange = self._named(kwargs, (kwargs.get("litellm_params") or {}).get("metadata"))
        if exchange is None or len(getattr(response_obj, "choices", ())) != 1:
            return
        if should_redact_message_logging(kwargs):
            log.warning("exchange_not_stored", session=exchange.session, reason="litellm.turn_off_message_logging")
            return
        made = Prepared(exchange.session)
        run(self._memory, exchange.stored(made))
        _noted(exchange, made, run(self._memory, exchange.concluded(made, _message(response_obj))))

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The same, on a thread."""
        await asyncio.to_thread(self.log_success_event, kwargs, response_obj, start_time, end_time)

    def _named(self, kwargs: Mapping[str, Any], metadata: Any) -> Exchange | None:
        if not isinstance(metadata, Mapping) or OWNER not in metadata or not isinstance(kwargs.get("messages"), list):
            return None
        options = {"messages": kwargs["messages"], "context_tokens": self._tokens}
        return _exchange(metadata[OWNER], metadata.get(SESSION), options)


def _streamed(memory: Memory, exchange: Exchange, made: Prepared, stream: Any) -> Iterator[Any]:
    whole = Assembled()
    for part in stream:
        whole.add(part.model_dump())
        yield part
    if whole.single and not was_cut(stream):
        _noted(exchange, made, run(memory, exchange.concluded(made, whole.message)))


async def _streamed_async(
    memory: AsyncMemForest | AsyncRemoteMemForest, exchange: Exchange, made: Prepared, stream: Any
) -> AsyncIterator[Any]:
    whole = Assembled()
    async for part in stream:
        whole.add(part.model_dump())
        yield part
    if whole.single and not was_cut(stream):
        _noted(exchange, made, await run_async(memory, exchange.concluded(made, whole.message)))


def _exchange(owner: str, session: str | None, options: dict[str, Any]) -> Exchange:
    """The exchange of a call; its own answers are taken as messages too."""
    messages = [
        each if isinstance(each, Mapping) else each.model_dump(exclude_none=True)
        for each in options.get("messages", ())
    ]
    return Exchange(owner, session, messages, options.pop("context_tokens", None))


def _message(answer: Any) -> Message:
    message: dict[str, Any] = answer.choices[0].message.model_dump(exclude_none=True)
    return message


def _noted(exchange: Exchange, made: Prepared, failed: str | None = None) -> None:
    """Log what is missing: there is no header here that says so."""
    for sentence in (*made.degraded, *([failed] if failed else [])):
        log.warning("memory_degraded", owner=exchange.owner, session=made.session, reason=sentence)
