"""Two rerankers that count shared words: a cross-encoder as an ONNX file, and a provider over HTTP.

The graph is real (embeddings of both texts are multiplied) and so small that it is written here, field by field, as
onnx.proto3 numbers them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer, _Response

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
WORDS = ("bob", "clara", "lives", "in", "davis", "miami", "violin", "dog", "where", "the", "plays", "now")

_FLOAT, _INT64 = 1, 7
_BATCH_AND_TOKENS = ("pairs", "tokens")


def shared(question: str, text: str) -> float:
    """The score: for each known word, how often it is in the one times how often in the other."""
    one, other = question.lower().split(), text.lower().split()
    return float(sum(one.count(word) * other.count(word) for word in WORDS))


class RerankServer(ModelServer):
    """A model server that also reranks, in the format of Cohere, Infinity and vLLM; best first, as they do."""

    def results(self, query: str, documents: Sequence[str]) -> list[dict[str, Any]]:
        """What is answered; tests put something else in its place."""
        scores = [(shared(query, document), index) for index, document in enumerate(documents)]
        return [{"index": index, "relevance_score": score} for score, index in sorted(scores, reverse=True)]

    def _respond(self, path: str, body: Mapping[str, Any], fault: Fault | None) -> _Response:
        response = super()._respond(path, body, fault)
        if not path.endswith("/rerank") or response.status != 404 or fault is Fault.UNKNOWN_MODEL:
            return response
        return _Response(200, {"id": "rerank-1", "results": self.results(body["query"], body["documents"])})


def cross_encoder(directory: Path, *, outputs: str = "column", types: bool = True) -> Path:
    """A directory with the model. ``outputs``: "column" (pairs, 1), "flat" (pairs,), "two" (pairs, 2), or "tokens".

    Without ``types`` the graph takes no token types and counts the tokens instead.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    # Files from a hub often ask for padding to the longest length there is.
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "model.onnx").write_bytes(_model(outputs, types))
    return directory


def _model(outputs: str, types: bool) -> bytes:
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    nodes, result, shape = _nodes(outputs, types)
    known = len(SPECIAL)
    table = np.diag([0.0] * known + [1.0] * len(WORDS)).astype(np.float32)
    tensors = [
        _tensor("table", _FLOAT, table),
        _tensor("middle", _INT64, np.array([1], dtype=np.int64)),
        _tensor("last", _INT64, np.array([2], dtype=np.int64)),
        _tensor("inner", _INT64, np.array([1, 2], dtype=np.int64)),
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"shared words")
    graph += b"".join(_field(5, tensor) for tensor in tensors)
    graph += b"".join(_field(11, _value(name, _INT64, _BATCH_AND_TOKENS)) for name in names)
    graph += _field(12, _value(result, _FLOAT, shape))
    return _number(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, 13))


def _nodes(outputs: str, types: bool) -> tuple[list[bytes], str, tuple[str, ...]]:
    """The operations, the name of the output, and its shape."""
    if not types:
        counted = [_node("Cast", ["attention_mask"], "mask", to=_FLOAT), _node("ReduceSum", ["mask", "middle"], "n")]
        return counted, "n", ("pairs", "one")
    nodes = [
        _node("Gather", ["table", "input_ids"], "words"),
        _node("Cast", ["attention_mask"], "mask", to=_FLOAT),
        _node("Cast", ["token_type_ids"], "second", to=_FLOAT),
        _node("Mul", ["mask", "second"], "of_text"),
        _node("Sub", ["mask", "of_text"], "of_question"),
        _node("Unsqueeze", ["of_text", "middle"], "text_row"),
        _node("Unsqueeze", ["of_question", "middle"], "question_row"),
        _node("MatMul", ["text_row", "words"], "text"),
        _node("MatMul", ["question_row", "words"], "question"),
        _node("Mul", ["text", "question"], "both"),
    ]
    match outputs:
        case "column":
            return [*nodes, _node("ReduceSum", ["both", "last"], "logits", keepdims=0)], "logits", ("pairs", "one")
        case "flat":
            return [*nodes, _node("ReduceSum", ["both", "inner"], "logits", keepdims=0)], "logits", ("pairs",)
        case "two":
            nodes += [
                _node("ReduceSum", ["both", "last"], "yes", keepdims=0),
                _node("Sub", ["yes", "yes"], "no"),
                _node("Concat", ["no", "yes"], "logits", axis=1),
            ]
            return nodes, "logits", ("pairs", "two")
        case _:
            return nodes, "words", ("pairs", "tokens", "width")


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    written = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    written += _field(4, kind.encode())
    for name, value in attributes.items():
        written += _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2))
    return written


def _tensor(name: str, kind: int, values: np.ndarray[Any, Any]) -> bytes:
    dims = b"".join(_number(1, size) for size in values.shape)
    return dims + _number(2, kind) + _field(8, name.encode()) + _field(9, values.tobytes())


def _value(name: str, kind: int, shape: Sequence[str]) -> bytes:
    dims = b"".join(_field(1, _field(2, size.encode())) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, dims)))


def _field(number: int, payload: bytes) -> bytes:
    """A field of bytes: text, or a message."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def tokenizer_file(directory: Path) -> dict[str, Any]:
    """The content of the directory's tokenizer.json."""
    document: dict[str, Any] = json.loads((directory / "tokenizer.json").read_text("utf-8"))
    return document
