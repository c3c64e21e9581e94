"""Two rerankers that count shared words: a cross-encoder as an ONNX file, and a provider over HTTP.

The graphs are real: the embeddings of both texts, one direction a word, are multiplied and summed up.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer, _Response

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
WORDS = ("bob", "clara", "lives", "in", "davis", "miami", "violin", "dog", "where", "the", "plays", "now")

GRAPHS = Path(__file__).parents[2] / "data" / "cross_encoders"


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
    shutil.copy(GRAPHS / f"{outputs if types else 'counting'}.onnx", directory / "model.onnx")
    return directory


def tokenizer_file(directory: Path) -> dict[str, Any]:
    """The content of the directory's tokenizer.json."""
    document: dict[str, Any] = json.loads((directory / "tokenizer.json").read_text("utf-8"))
    return document
