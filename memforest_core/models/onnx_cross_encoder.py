"""A cross-encoder from a directory with ``model.onnx`` and ``tokenizer.json``, run in this process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import InvalidSettings, ModelRejected, ModelUnavailable
from memforest_core.models.calls import Reranked, Step, own_call
from memforest_core.models.embedders.batching import cores
from memforest_core.models.onnx_model import INPUTS, OnnxModel, failures, tokenizers_module

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENS = 512
"""Of question and text together, what BERT-like cross-encoders were trained for; the longer one is cut first."""
BATCH = 8
"""Pairs of one run."""

_SETTING = "MEMFOREST_RECALL__RERANK__PATH"


@renewed_in_child
class OnnxCrossEncoder:
    """Thread-safe; loads at the first use, again in a forked child.

    The graph takes ``input_ids``, ``attention_mask`` and, where it knows them, ``token_type_ids``, all (pairs, tokens);
    its first output is one logit a pair, (pairs,) or (pairs, 1), or two of which the second means relevant.
    ``timeout_s`` bounds one question; as many batches run at once as there are cores.
    """

    def __init__(self, directory: Path, *, timeout_s: float = 5.0) -> None:
        missing = [name for name in (MODEL_FILE, TOKENIZER_FILE) if not (directory / name).is_file()]
        if missing:
            raise InvalidSettings(f"Set {_SETTING} to a directory with {' and '.join(missing)}.")
        self._directory = directory
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    @property
    def model(self) -> str:
        """The name of its directory."""
        return self._directory.resolve().name

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """Logits in the order of the texts. Raises InvalidSettings for files that are no such model, ModelRejected for
        text that is not Unicode, and ModelUnavailable when it takes longer than ``timeout_s``."""
        engine = self._loaded()
        began = time.perf_counter()
        deadline = began + self._timeout_s
        pairs = engine.tokenize(question, texts)
        # Pairs of about one length together: a short one is not padded to the longest of all.
        order = sorted(range(len(texts)), key=lambda place: len(pairs[place].ids))
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        runs = [engine.pool.submit(engine.run, [pairs[place] for place in positions]) for positions in batches]
        _, late = wait(runs, max(0.0, deadline - time.perf_counter()))
        if late:
            for run in late:
                run.cancel()
            error = ModelUnavailable(
                f"The cross-encoder did not read {len(texts)} texts within {self._timeout_s:g} s "
                "(see MEMFOREST_RECALL__RERANK__TIMEOUT_S and MEMFOREST_RECALL__RERANK__FIRST)."
            )
            error.call = own_call(Step.RERANK, self.model, 0, began, error.code)
            raise error
        scores = [0.0] * len(texts)
        for positions, run in zip(batches, runs, strict=True):
            for place, score in zip(positions, run.result(), strict=True):
                scores[place] = score
        tokens = sum(len(pair.ids) for pair in pairs)
        return Reranked(scores, own_call(Step.RERANK, self.model, tokens, began))

    def _loaded(self) -> _Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _Engine(self._directory)
            return self._engine


class _Engine:
    """The tokenizer and the session of one process."""

    def __init__(self, directory: Path) -> None:
        tokenizers = tokenizers_module("unset MEMFOREST_RECALL__RERANK__PATH")
        self._failures = failures()
        self._tokenizer = _tokenizer(tokenizers, directory / TOKENIZER_FILE)
        padding: Mapping[str, Any] = self._tokenizer.padding or {}
        self._padding = {"padding": int(padding.get("pad_id", 0)), "type_padding": int(padding.get("pad_type_id", 0))}
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
        try:
            self._model = OnnxModel(str(directory / MODEL_FILE))
        except self._failures as error:
            raise _unusable(f"{MODEL_FILE} can't be loaded ({type(error).__name__})") from None
        self.pool = ThreadPoolExecutor(cores(), thread_name_prefix="memforest-rerank")
        if not {"input_ids"} <= self._model.inputs <= INPUTS:
            raise _unusable(f"{MODEL_FILE} takes {', '.join(sorted(self._model.inputs))}")

    def tokenize(self, question: str, texts: Sequence[str]) -> list[Any]:
        """Encodings of (question, text), at most MAX_TOKENS each."""
        try:
            encoded: list[Any] = self._tokenizer.encode_batch([(question, text) for text in texts])
        except (TypeError, UnicodeEncodeError):
            raise ModelRejected("A text to rerank is not valid Unicode: remove lone surrogates.") from None
        return encoded

    def run(self, batch: Sequence[Any]) -> list[float]:
        """One logit a pair. Raises InvalidSettings when the graph is no cross-encoder."""
        ids, types = [pair.ids for pair in batch], [pair.type_ids for pair in batch]
        try:
            output, _ = self._model.run(ids, max(map(len, ids)), types=types, **self._padding)
        except self._failures as error:
            raise ModelRejected(f"The cross-encoder can't read its input ({type(error).__name__}).") from None
        return _logits(np.asarray(output), len(batch))


def _unusable(why: str) -> InvalidSettings:
    return InvalidSettings(f"Set {_SETTING} to a cross-encoder's directory: its {why}.")


def _logits(output: NDArray[Any], count: int) -> list[float]:
    if output.ndim == 2 and output.shape == (count, 2):
        output = output[:, 1] - output[:, 0]
    if output.size != count:
        raise _unusable(f"{MODEL_FILE} gives {output.shape} for {count} pairs")
    logits = output.reshape(count).astype(np.float64)
    if not np.isfinite(logits).all():
        raise ModelRejected("The cross-encoder gave a score that is no number.")
    return [float(logit) for logit in logits]


def _tokenizer(tokenizers: Any, path: Path) -> Any:
    """The tokenizer of a file; the library raises plain exceptions for what is none, so that is looked at first."""
    try:
        text = path.read_text("utf-8")
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "model" not in document:
        raise _unusable(f"{TOKENIZER_FILE} is no tokenizer")
    return tokenizers.Tokenizer.from_str(text)
