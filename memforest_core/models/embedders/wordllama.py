"""wordllama-256: a text is the mean of its tokens' vectors, a table from the wheel ``wordllama``; a hundred times
faster than a transformer, and much less accurate.

The package itself is not imported: doing so sets up the process's logging, and its loader can
download. What is read are its table and its tokenizer.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.embedders.built_in import BuiltInEmbedder, Read

MODEL = "wordllama-256"
PACKAGE = "wordllama"
MAX_CHARS = 8_000
"""The rest of a longer text is not read: the mean of so many words says little already."""
_TABLE = Path("weights") / "l2_supercat_256.safetensors"
_TOKENIZER = Path("tokenizers") / "l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
_UNKNOWN = 0
"""The token that stands for a text without any, so that each has a direction."""


class WordLlamaEmbedder(BuiltInEmbedder):
    """256 dimensions; the model is symmetric."""

    def __init__(self) -> None:
        super().__init__(MODEL, _Table)


class _Table:
    """Token vectors, mapped from the file, and the tokenizer that numbers them."""

    def __init__(self) -> None:
        folder = _folder()
        tokenizers: Any = importlib.import_module("tokenizers")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._rows = _tensor(folder / _TABLE)
        self.dimension = int(self._rows.shape[1])

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """Without special tokens; questions need not go first, because nothing waits."""
        return [self._read(self._ids(text)) for text in texts]

    def _read(self, ids: Sequence[int]) -> Read:
        # The mean of the tokens' vectors, scaled to unit length.
        total = self._rows[ids or [_UNKNOWN]].astype(np.float32).sum(axis=0)
        return Read(total / np.linalg.norm(total), len(ids))

    def _ids(self, text: str) -> list[int]:
        try:
            encoded = self._tokenizer.encode(text[:MAX_CHARS], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.") from None
        ids: list[int] = encoded.ids
        return ids


def _folder() -> Path:
    """Where the package's files are. Raises InvalidSettings."""
    for package in (PACKAGE, "tokenizers"):
        if importlib.util.find_spec(package) is None:
            raise InvalidSettings(
                f"The embedding model {MODEL} needs the package {package}: pip install 'memforest[wordllama]', "
                "or set MEMFOREST_EMBEDDING__MODEL to another model."
            )
    found = importlib.util.find_spec(PACKAGE)
    folders = [Path(folder) for folder in (found.submodule_search_locations or () if found else ())]
    for folder in folders:
        if (folder / _TABLE).is_file() and (folder / _TOKENIZER).is_file():
            return folder
    raise InvalidSettings(f"The files of {MODEL} are not in the package {PACKAGE}: install version 0.4 of it.")


def _tensor(path: Path) -> NDArray[np.float16]:
    """A matrix of float16 from a safetensors file: eight bytes give its header's length, the data follows it."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[_TENSOR]
    start, _end = entry["data_offsets"]
    rows, columns = entry["shape"]
    return np.memmap(path, np.float16, mode="r", offset=8 + length + start, shape=(rows, columns))
