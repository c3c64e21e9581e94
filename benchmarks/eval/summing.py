"""From records to rows, and to whether one method is better than another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from benchmarks.eval.baseline_rows import OURS
from benchmarks.eval.measuring import earliest, mean, ndcg, percent, quantile, within
from benchmarks.eval.records import Record
from benchmarks.eval.variants import MEMFOREST
from benchmarks.harness import Row

DRAWS = 2_000
"""Bootstrap samples."""
INTERVAL = (0.025, 0.975)
SAME = 1e-9
"""Figures that differ by less are the same."""
ALL = "all"
"""All questions together, in addition to the types."""


def _outdated_above(record: Record) -> float | None:
    """Whether a wrong turn is before all that have the answer, or none of these is found; None without wrong ones."""
    if not record.outdated_ranks:
        return None
    answered = earliest(record.best_ranks)
    return float(math.isinf(answered) or earliest(record.outdated_ranks) < answered)


MEASURES: Mapping[str, Callable[[Record], float | None]] = {
    "share_500": attrgetter("share_500"),
    "share_2000": attrgetter("share_2000"),
    "recall_500": attrgetter("found_500"),
    "recall_2000": attrgetter("found_2000"),
    "complete_500": lambda record: float(record.found_500 == 1.0),
    "complete_2000": lambda record: float(record.found_2000 == 1.0),
    "first": lambda record: float(earliest(record.best_ranks) <= 1),
    "third": lambda record: float(earliest(record.best_ranks) <= 3),
    "outdated_above": _outdated_above,
    "recall_at_5": lambda record: within(record.ranks, 5),
    "recall_at_10": lambda record: within(record.ranks, 10),
    "recall_at_20": lambda record: within(record.ranks, 20),
    "all_at_10": lambda record: float(within(record.ranks, 10) == 1.0),
    "mrr": lambda record: 1 / earliest(record.ranks),
    "ndcg_10": lambda record: ndcg(record.ranks),
}
"""A question's figure by its record; None where it has none."""
SAME_FIRST = "same_first"
"""The figure of a pair: whether the first items of a question and of its paraphrase quote a turn in common."""
COMPARED = ("share_500", "share_2000", "first", "third", "outdated_above", SAME_FIRST, "complete_2000")
"""What two rows are compared by."""


def values(records: Sequence[Record], measure: str) -> dict[str, float]:
    """Each question's figure in [0, 1] by its id; of a pair by the id of the paraphrase."""
    if measure != SAME_FIRST:
        found = {record.question_id: MEASURES[measure](record) for record in records if record.answerable}
        return {id_: value for id_, value in found.items() if value is not None}
    heads = {record.question_id: set(record.head) for record in records}
    pairs = [record for record in records if record.paraphrase_of in heads]
    return {one.question_id: float(bool(heads[one.paraphrase_of] & set(one.head))) for one in pairs}


def figures(records: Sequence[Record]) -> Row:
    """Means over questions in percent, with ``n_<measure>`` where not all questions have the figure."""
    count = sum(record.answerable for record in records)
    row: Row = {"n": count}
    for measure in (*MEASURES, SAME_FIRST):
        found = values(records, measure)
        if found:
            row[measure] = percent(found.values())
            row |= {f"n_{measure}": len(found)} if len(found) != count else {}
    return row


def row(method: str, records: Sequence[Record], ingest_s: float) -> Row:
    """One method's figures: percentages are means over questions of each question's figure."""
    whole = [record.ms for record in records if record.ms is not None]
    of_k = [record.k_ms for record in records if record.k_ms is not None]
    answerable = [record for record in records if record.answerable]
    return {
        "method": method,
        "ours": method in OURS or method.split(":")[0] == MEMFOREST,
        **figures(records),
        **confidence(records),
        "context_tokens": round(mean([record.context_tokens for record in answerable])),
        "by_category": _by(answerable, attrgetter("category")),
        "by_conversation": _by(answerable, attrgetter("conversation")),
        "query_ms_p50": _time(whole, 0.5),
        "query_ms_p95": _time(whole, 0.95),
        "query_k_ms_p50": _time(of_k, 0.5),
        "query_k_ms_p95": _time(of_k, 0.95),
        "degraded": sum(bool(record.degraded) for record in records),
        "ingest_s": ingest_s,
    }


def _time(times_ms: Sequence[float], share: float) -> float | None:
    """A quantile; None for a row that was not timed."""
    return round(quantile(times_ms, share), 2) if times_ms else None


def _by(records: Sequence[Record], group: Callable[[Record], str]) -> dict[str, Row]:
    groups = dict.fromkeys(map(group, records))
    return {name: figures([record for record in records if group(record) == name]) for name in groups}


def confidence(records: Sequence[Record]) -> Row:
    """``auc``: how often, in percent, a question with an answer has more confidence than one without; equal ones count
    half. ``n_unanswerable`` says how many have none. Empty without both."""
    known, unknown = (
        np.array([one.confidence for one in records if one.answerable is wanted and one.confidence is not None])
        for wanted in (True, False)
    )
    if not len(known) or not len(unknown):
        return {}
    gaps = np.sign(known[:, None] - unknown[None, :])
    return {"auc": round(float(50 + 50 * gaps.mean()), 1), "n_unanswerable": len(unknown)}


def comparison(ours: Sequence[Record], others: Mapping[str, Sequence[Record]]) -> Row:
    """Ours against the foreign baseline that delivers the largest share at each budget, all questions together.

    ``ratio_500`` is our share within 500 tokens over each one's, ``misses_saved_2000`` the percentage of the best one's
    misses within 2,000 tokens that we don't have.
    """
    near, far = (
        {name: mean(values(records, measure).values()) for name, records in (("", ours), *others.items())}
        for measure in ("share_500", "share_2000")
    )
    full = [
        name
        for name, records in others.items()
        if name not in OURS and len(values(records, "first")) == len(values(ours, "first")) > 0
    ]
    if not full:
        return {}
    best_500, best_2000 = max(full, key=near.__getitem__), max(full, key=far.__getitem__)
    missed = 1.0 - far[best_2000]
    return {
        "best_500": best_500,
        "best_2000": best_2000,
        "ratio_500": {name: round(near[""] / near[name], 3) if near[name] else None for name in full},
        "misses_saved_2000": round(100 * (far[""] - far[best_2000]) / missed, 1) if missed else None,
    }


Differences = dict[str, dict[str, Row]]
"""By measure, then for all questions and for each type."""


def differences(ours: Sequence[Record], theirs: Sequence[Record], seed: int) -> Differences:
    """Ours minus theirs over the questions of both, in points, for each of ``COMPARED``.

    Each with the 95% interval of the paired difference (percentile bootstrap, 2,000 draws with replacement): ``low``
    and ``high`` with questions drawn, a question together with its paraphrase; ``conversation_low`` and ``_high`` with
    conversations drawn, which is rough for few of them. ``changed`` counts questions with another figure.
    """
    found: Differences = {}
    for measure in COMPARED:
        own, other = values(ours, measure), values(theirs, measure)
        gaps = [(one, own[id_] - other[id_]) for one in ours if (id_ := one.question_id) in own and id_ in other]
        names = [ALL, *dict.fromkeys(one.category for one, _ in gaps)] if gaps else []
        found[measure] = {
            name: _difference([pair for pair in gaps if name in {ALL, pair[0].category}], seed) for name in names
        }
    return {measure: cells for measure, cells in found.items() if cells}


def _difference(gaps: Sequence[tuple[Record, float]], seed: int) -> Row:
    low, high = interval([(one.paraphrase_of or one.question_id, gap) for one, gap in gaps], seed)
    wide = interval([(one.conversation, gap) for one, gap in gaps], seed)
    return {
        "n": len(gaps),
        "difference": round(100 * mean([gap for _, gap in gaps]), 1),
        "low": round(100 * low, 1),
        "high": round(100 * high, 1),
        "conversation_low": round(100 * wide[0], 1),
        "conversation_high": round(100 * wide[1], 1),
        "changed": sum(abs(gap) > SAME for _, gap in gaps),
    }


@lru_cache(maxsize=128)
def _draws(count: int, seed: int) -> NDArray[np.int64]:
    """How often each of ``count`` things is drawn in each sample, shape (DRAWS, count)."""
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), DRAWS)


def interval(gaps: Sequence[tuple[str, float]], seed: int) -> tuple[float, float]:
    """The 95% interval of the mean of (group, value), when groups are drawn, such as conversations.

    With one group there is nothing to draw: both ends are the mean.
    """
    groups: dict[str, list[float]] = {}
    for name, gap in gaps:
        groups.setdefault(name, []).append(gap)
    sums = np.array([sum(each) for each in groups.values()])
    sizes = np.array([len(each) for each in groups.values()])
    drawn = _draws(len(groups), seed)
    low, high = np.quantile((drawn @ sums) / (drawn @ sizes), INTERVAL)
    return float(low), float(high)
