"""Tokens as a provider of chat models counts them: by the tokenizer that litellm brings along."""

from __future__ import annotations

import importlib
from functools import cache, lru_cache
from typing import Any

from memforest_core.models.litellm_runtime import litellm_module

NAME = "cl100k_base"


@cache
def _encoding() -> Any:
    litellm_module()
    return importlib.import_module("litellm.litellm_core_utils.default_encoding").encoding


@lru_cache(maxsize=65_536)
def count_tokens(text: str) -> int:
    """Tokens of a text; names of special tokens in it are text."""
    return len(_encoding().encode(text, disallowed_special=()))
