"""Local models in the ONNX format: a session with one thread a run, and token ids as its inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.extras import needed

Numbers = Sequence[Sequence[int]]
INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""What a graph may take, each of shape (texts, tokens)."""


def tokenizers_module(otherwise: str) -> Any:
    """The library of tokenizers. Raises InvalidSettings where the wheels are missing, with what to do ``otherwise``."""
    with needed("memforest[minilm]", otherwise):
        importlib.import_module("onnxruntime")
        return importlib.import_module("tokenizers")


def failures() -> tuple[type[BaseException], ...]:
    """onnxruntime's exceptions, which have no base class of their own."""
    state: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented")
    return tuple(getattr(state, name) for name in (*names, "NoModel", "RuntimeException"))


class OnnxModel:
    """A loaded graph. Thread-safe: runs go side by side on the threads of the callers. That is faster for many short
    texts (measured on two cores: 1.2 times), a sum has one order, and a session's own threads can't be let go of in a
    fork."""

    def __init__(
        self,
        graph: str | bytes,
        weights: Path | Mapping[str, NDArray[Any]] | None = None,
        words: Callable[[NDArray[np.int64]], NDArray[np.float32]] | None = None,
    ) -> None:
        """``graph``: a file's path, or its contents; ``weights``: where the files are that it names, or the arrays;
        ``words``: makes the input "words", of shape (texts, tokens, dimension), of ids of shape (texts, tokens)."""
        onnxruntime: Any = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_mem_pattern = False
        options.log_severity_level = 4  # what goes wrong is raised
        self._words = words
        if isinstance(weights, Mapping):
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
            options.add_external_initializers([*weights], values)
        elif weights is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.inputs = frozenset(each.name for each in self._session.get_inputs())
        self.width = self._session.get_outputs()[0].shape[-1]
        """Of the first output's last axis: a number, or a name where it varies."""

    def run(
        self, ids: Numbers, length: int, *, padding: int = 0, types: Numbers = (), type_padding: int = 0
    ) -> tuple[Any, NDArray[np.int64]]:
        """The first output for token ids that are padded to a length, and which of them are no padding, as 0 and 1."""
        mask = _padded([[1] * len(row) for row in ids], length, 0)
        feed: dict[str, NDArray[Any]] = {"input_ids": _padded(ids, length, padding), "attention_mask": mask}
        feed["token_type_ids"] = _padded(types or [[0] * len(row) for row in ids], length, type_padding)
        if self._words is not None:
            feed["words"] = self._words(feed["input_ids"])
        return self._session.run(None, {name: feed[name] for name in self.inputs})[0], mask


def _padded(rows: Numbers, length: int, padding: int) -> NDArray[np.int64]:
    filled = np.full((len(rows), length), padding, dtype=np.int64)
    for at, row in enumerate(rows):
        filled[at, : len(row)] = row
    return filled
