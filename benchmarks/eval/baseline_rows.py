"""The baselines of a run by name, and whose they are: foreign ones, and ours without trees."""

from __future__ import annotations

from benchmarks.eval.baselines import Baseline, Method, Search
from benchmarks.eval.blending import Convex, Scales
from benchmarks.eval.corpora import Corpora, Cut
from benchmarks.eval.dataset import Dataset
from benchmarks.eval.peer_rows import PEERS, peers

SEARCHES = {
    "bm25_turns": (Search.BM25, Cut.TURNS),
    "bm25_cells": (Search.BM25, Cut.CELLS),
    "bm25_chunks": (Search.BM25, Cut.CHUNKS),
    "hybrid_chunks": (Search.HYBRID, Cut.CHUNKS),
    "dense_turns": (Search.DENSE, Cut.TURNS),
    "hybrid_turns": (Search.HYBRID, Cut.TURNS),
    "sum_cells": (Search.SUM, Cut.CELLS),
    "flat_facts": (Search.HYBRID, Cut.FACTS),
}
"""All texts carry their date and speakers; words are stemmed."""
TUNED = {"convex_turns": Cut.TURNS, "convex_chunks": Cut.CHUNKS}
SCALES = "zsum_turns"
BASELINES = (*SEARCHES, *TUNED, SCALES, *PEERS)
OURS = frozenset({"flat_facts"})
"""Search over facts that MemForest extracted: nobody has it without MemForest."""


def baselines(corpora: Corpora, data: Dataset) -> list[Method]:
    """All of them, over the same corpora. Those of peers start processes at the first question: close them."""
    plain = [Baseline(name, search, cut, corpora) for name, (search, cut) in SEARCHES.items()]
    tuned = [Convex(name, cut, corpora, data) for name, cut in TUNED.items()]
    return [*plain, *tuned, Scales(SCALES, corpora), *peers(corpora)]


def shown(name: str) -> str:
    """A row's name in a table: what is ours says so."""
    return f"{name} (ours)" if name in OURS else name
