"""litellm's exceptions, and those of calls without it, in our taxonomy, with nothing of the prompt or the answer in the
message."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from memforest_core.errors import (
    TIMED_OUT,
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.litellm_runtime import AnswerRefused, litellm_module, misses_key

MAX_RETRY_AFTER_S = 3600.0
_PERMANENT_CAUSES = (ImportError, UnicodeError, AnswerRefused)
"""litellm wraps these as lost connections: a provider package is missing, a text is not Unicode."""
_UNSENDABLE = ((ValueError, "headers"), (httpx.LocalProtocolError, "header"))
"""aiohttp's and httpx's error for a key with a line break, and a word of its text; litellm wraps it as a lost
connection."""
_WORDED = (400, 413, 422)
"""Statuses whose cause only the answer's words tell; litellm knows those of many servers."""


class ServerError(httpx.HTTPError):
    """A server's answer to a call without litellm, with a status of 400 or more and the answer as its text."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.text)
        self.request = response.request
        self.response = response
        self.status_code = response.status_code


@dataclass(frozen=True, slots=True)
class Target:
    """Who was called, in words for messages; ``settings`` is the settings' prefix to change."""

    model: str
    api_base: str | None
    timeout_s: float
    settings: str

    def __str__(self) -> str:
        return self.model if self.api_base is None else f"{self.model} at {self.host}"

    @property
    def host(self) -> str:
        """Host and port only: a URL may hold a password."""
        parts = urlsplit(self.api_base or "")
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def missing_key(target: Target) -> ModelAuthFailed:
    """No key is configured where one is needed."""
    return ModelAuthFailed(f"The model {target} needs a key and none is set: set {target.settings}__API_KEY.")


def check_target(target: Target, api_key: str | None) -> None:
    """Raise ModelRejected if nothing says who provides the model, and ModelAuthFailed if it needs a key and none is
    set; makes no request."""
    litellm = litellm_module()
    try:
        litellm.get_llm_provider(target.model, api_base=target.api_base)
    except litellm.BadRequestError as error:
        raise failure(error, target) from None
    if misses_key(target.model, api_key, target.api_base):
        raise missing_key(target)


def _is(error: BaseException, *names: str) -> bool:
    """Whether an error is of one of litellm's classes, which need not be imported."""
    return any(each.__name__ in names and each.__module__.startswith("litellm.") for each in type(error).__mro__)


def _classified(error: BaseException, target: Target) -> BaseException:
    """The error, or litellm's for what a server refused in words."""
    if not isinstance(error, ServerError) or error.status_code not in _WORDED:
        return error
    litellm = litellm_module()
    try:
        litellm.exception_type(target.model.partition("/")[2], error, "openai")
    except litellm.openai.OpenAIError as known:
        error = known
    return error


def failure(error: BaseException, target: Target) -> MemForestError:
    """The error to raise for what a call ended with."""
    error = _classified(error, target)
    status = _status(error)
    wait = retry_after(_headers(error))
    names = " <- ".join(type(link).__name__ for link in _chain(error))
    if isinstance(error, TimeoutError | httpx.TimeoutException) or _is(error, "Timeout") or status in (408, 504):
        return ModelUnavailable(
            f"The model {target} did not answer within {target.timeout_s:g} s (see {target.settings}__TIMEOUT_S).",
            retry_after=wait,
            code=TIMED_OUT,
        )
    if _is(error, "RateLimitError") or status == 429:
        return ModelRateLimited(f"The model {target} is rate limited (429).", retry_after=wait)
    if _is(error, "AuthenticationError") or status in (401, 403):
        return ModelAuthFailed(
            f"The model {target} refused the key ({status or 401}): set {target.settings}__API_KEY to a valid one."
        )
    if _is(error, "ContextWindowExceededError"):
        return ContextTooLong(f"The input does not fit the context of {target}; send less at once.")
    if _is(error, "ContentPolicyViolationError"):
        return ContentRefused(f"The content policy of {target} refused the input.")
    if any(word in str(link) for link in _chain(error) for kind, word in _UNSENDABLE if type(link) is kind):
        return ModelAuthFailed(
            f"The key of {target} can't be sent, it has a line break or the like: set {target.settings}__API_KEY."
        )
    if _is(error, "BadRequestError") and "LLM Provider NOT provided" in str(error):
        return ModelRejected(
            f"The model name {target.model} does not say its provider: set {target.settings}__MODEL to"
            f" provider/name; for a server that speaks OpenAI's protocol, openai/{target.model} with"
            f" {target.settings}__API_BASE."
        )
    permanent = next((x for x in _chain(error) if isinstance(x, _PERMANENT_CAUSES)), None)
    if permanent is not None:
        return _permanent(permanent, target, names)
    if _is(error, "NotFoundError") or status == 404:
        return ModelRejected(
            f"{target} is not known there (404): change {target.settings}__MODEL, or {target.settings}__API_BASE when"
            " its path is missing (often /v1)."
        )
    if status is not None and 400 <= status < 500 and status not in (409, 425):
        return ModelRejected(f"The model {target} refused the request ({status}, {names}).")
    if isinstance(error, httpx.HTTPError | OSError) or _is(error, "APIError", "APIConnectionError") or status:
        return ModelUnavailable(f"The model {target} cannot be used now ({names}).", retry_after=wait)
    return ModelRejected(f"The call of {target} failed in litellm ({names}).")


def _permanent(cause: BaseException, target: Target, names: str) -> ModelRejected:
    refused = isinstance(cause, AnswerRefused)
    return ModelRejected(f"The model {target} {cause}." if refused else f"litellm cannot call {target}: {names}.")


def refuses(error: BaseException | None, words: Collection[str]) -> bool:
    """Whether a provider refused the way of requesting that its answer names with one of the words, not the request."""
    if error is None or not (_is(error, "BadRequestError", "UnprocessableEntityError") or _status(error) in _WORDED):
        return False
    return any(word in str(error).lower() for word in words)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from Retry-After (a number or an HTTP date) or retry-after-ms; None if absent."""
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        if "retry-after-ms" in lower:
            seconds = float(lower["retry-after-ms"]) / 1000.0
        elif "retry-after" in lower and lower["retry-after"][:1].isalpha():
            seconds = parsedate_to_datetime(lower["retry-after"]).timestamp() - time.time()
        elif "retry-after" in lower:
            seconds = float(lower["retry-after"])
        else:
            return None
    except ValueError:
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links and len(links) < 8:
        links.append(link)
        link = link.__cause__ or link.__context__
    return links


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _headers(error: BaseException) -> Mapping[str, str]:
    for holder in (error, getattr(error, "response", None)):
        for attribute in ("litellm_response_headers", "headers"):
            headers = getattr(holder, attribute, None)
            if headers:
                return {str(name): str(value) for name, value in dict(headers).items()}
    return {}
