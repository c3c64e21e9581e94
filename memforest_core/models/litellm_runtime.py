"""The one place that imports litellm: late, silent, and without reaching for the network."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx

from memforest_core.domain.forks import abandon, in_child
from memforest_core.models.answer_limits import bounded

_KEYLESS = "none"
_TEXTS = ("text", "output_text")
_import_lock = threading.Lock()


def _leave_clients(litellm: Any) -> None:
    """Give a forked child HTTP clients of its own."""
    abandon(litellm.in_memory_llm_clients_cache)
    litellm.in_memory_llm_clients_cache = type(litellm.in_memory_llm_clients_cache)()


def _in_one(init: Callable[..., None]) -> Callable[..., None]:
    """A message's ``__init__`` that takes a content in parts as one text."""

    def __init__(self: Any, content: object = None, *rest: Any, **named: Any) -> None:  # noqa: N807
        if isinstance(content, list):
            texts = (part for part in content if isinstance(part, dict) and part.get("type") in _TEXTS)
            content = "".join(str(part.get("text") or "") for part in texts)
        init(self, content, *rest, **named)

    return __init__


@cache
def _load() -> Any:
    # litellm fetches a price list from the network while it is imported, and reads a .env file
    # that it finds above its own directory, unless these say otherwise. It offers no other switch.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.turn_off_message_logging = True
    # Embedding calls read a given max_retries=0 as "not given" and take this default (2).
    litellm.DEFAULT_MAX_RETRIES = 0
    in_child(litellm, _leave_clients)
    # Their debug lines hold whole requests, conversation text included.
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("openai", "httpx", "httpcore", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Its text has the values of the answer, and Python prints it.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
    transport: Any = importlib.import_module("litellm.llms.custom_httpx.aiohttp_transport").LiteLLMAiohttpTransport
    plain: Any = httpx.AsyncHTTPTransport
    for each in (transport, plain):
        each.handle_async_request = bounded(each.handle_async_request)
    # Its class of messages refuses a content in parts, as some servers write it.
    litellm.Message.__init__ = _in_one(litellm.Message.__init__)
    # Of 21 MB, and only read to make the text next to it.
    litellm.utils.json_data = None
    # Imported by the first call otherwise, which would be half a second slower.
    importlib.import_module("openai.resources")
    return litellm


def litellm_module() -> Any:
    """litellm, imported at the first use (about 2 s and 155 MB)."""
    with _import_lock:
        return _load()


def key_argument(api_key: str | None, api_base: str | None) -> str | None:
    """The key to pass on: a given server without a key gets a placeholder, never a key of another
    provider that litellm would find in the environment."""
    if not _given(api_key):
        return None if api_base is None else _KEYLESS
    return api_key


def _given(api_key: str | None) -> bool:
    return api_key is not None and api_key.strip() != ""


def misses_key(model: str, api_key: str | None, api_base: str | None) -> bool:
    """Whether the provider needs a key that is neither given nor where litellm reads it; empty is not given."""
    if _given(api_key) or api_base is not None:
        return False
    # litellm takes a variable that is set but empty for a key; the call then fails as if the server was unavailable.
    for name in [name for name, value in os.environ.items() if name.endswith("_API_KEY") and not value.strip()]:
        os.environ.pop(name, None)
    missing = litellm_module().validate_environment(model).get("missing_keys") or []
    return any(str(name).endswith("_API_KEY") for name in missing)
