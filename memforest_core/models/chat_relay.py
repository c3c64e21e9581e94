"""Chat requests of apps, passed to one model through litellm: only the model's name and address are ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache, partial
from importlib import import_module
from typing import Any

from memforest_core.domain.text import clipped
from memforest_core.errors import InvalidInput, MemForestError, ModelUnavailable
from memforest_core.models.call_loop import Finished, finished
from memforest_core.models.litellm_failures import Target, check_target, failure
from memforest_core.models.litellm_runtime import key_argument, limited, litellm_module
from memforest_core.settings import GatewaySettings

MOST_BYTES = 1 << 26
"""Decoded bytes of one answer, streams included."""
MOST_QUOTED_CHARS = 500
"""Of a provider's own sentence."""
_PLAIN = {"messages", "stream", "stream_options", "n"}
"""What litellm itself reads of a request. All else goes to servers that speak OpenAI's protocol as it came."""
_ENDS = ("received_finish_reason", "intermittent_finish_reason")
"""Where litellm's stream has why the model ended."""


def was_cut(stream: Any) -> bool:
    """Whether the model never said why it ended: litellm makes up the last part of such a stream."""
    return not any(getattr(stream, name, "unknown") for name in _ENDS)


@cache
def _translated() -> frozenset[str]:
    """Parameters of OpenAI's API that litellm translates for other providers; its own options are not among them."""
    theirs = import_module("openai.types.chat.completion_create_params").CompletionCreateParamsBase.__annotations__
    return frozenset({*theirs}.intersection(litellm_module().OPENAI_CHAT_COMPLETION_PARAMS))


class ChatRelay:
    """Passes requests on; needs a ``settings.model``."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.target = Target(settings.model or "", settings.api_base, settings.timeout_s, "MEMFOREST_GATEWAY")
        self._key = None if settings.api_key is None else settings.api_key.get_secret_value()

    def check(self) -> None:
        """Import litellm, which takes seconds. Raises ModelRejected, ModelAuthFailed when no call can succeed."""
        check_target(self.target, self._key)

    async def complete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The model's whole answer to a request of OpenAI's API. Raises InvalidInput, MemForestError."""
        answer: dict[str, Any] = (await self._called(request)).model_dump(mode="json", exclude_none=True)
        for choice in answer.get("choices", ()):
            choice["message"].setdefault("content", None)  # OpenAI's clients expect it with tool calls too
        return answer

    async def begin(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """The parts of the answer as they come, once the model has begun; raises as ``complete``, then and later.

        A stream that ends before the model has said why it ends is an error.
        """
        return self._parts(await self._called(request))

    async def _parts(self, stream: Any) -> AsyncGenerator[dict[str, Any]]:
        ended = False
        async with aclosing(stream):
            parts = aiter(stream)
            while (part := self._value(await finished(lambda: anext(parts, None), self.target.timeout_s))) is not None:
                sent = part.model_dump(mode="json", exclude_none=True)
                for choice in sent.get("choices", ()):
                    ended = ended or choice.setdefault("finish_reason", None) is not None
                if ended and was_cut(stream):
                    break
                yield sent
            else:
                if ended:
                    return
        raise ModelUnavailable(f"The model {self.target} ended its answer in the middle.")

    async def _called(self, request: Mapping[str, Any]) -> Any:
        litellm = litellm_module()
        _, provider, *_ = litellm.get_llm_provider(self.target.model, api_base=self.target.api_base)
        speaks = provider in ("openai", "azure", *litellm.openai_compatible_providers)
        own = _PLAIN if speaks else _PLAIN | _translated()
        arguments = {name: value for name, value in request.items() if name in own and value is not None}
        extra = {name: value for name, value in request.items() if name not in own and name != "model"}
        if extra and not speaks:
            raise InvalidInput(
                f"Leave out {min(extra)!r:.80}: {self.target.model} has nothing for it.", code="unknown_field"
            )

        async def call() -> Any:
            return await litellm.acompletion(
                **arguments,
                model=self.target.model,
                api_base=self.target.api_base,
                api_key=key_argument(self._key, self.target.api_base),
                timeout=self.target.timeout_s,
                max_retries=0,
                extra_body=extra or None,
            )

        return self._value(await finished(partial(limited, call, MOST_BYTES), self.target.timeout_s))

    def _value(self, done: Finished[Any]) -> Any:
        """What a call returned, or the error of ours to raise."""
        if done.error is not None:
            raise self._error(done.error)
        return done.value

    def _error(self, error: BaseException) -> MemForestError:
        """What to raise; a refusal of the request itself is the app's to change, and says what the provider says."""
        found = failure(error, self.target)
        if isinstance(error, litellm_module().BadRequestError) and "LLM Provider NOT provided" not in str(error):
            said = clipped(" ".join(str(error).split()), MOST_QUOTED_CHARS)
            return InvalidInput(f"{found.message} {said}", code=found.code)
        return found
