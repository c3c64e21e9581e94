"""From records to rows, and to whether one method is better than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from benchmarks.eval.baseline_rows import OURS
from benchmarks.eval.measuring import BUDGETS, percent, quantile
from benchmarks.eval.records import Record
from benchmarks.eval.variants import MEMFOREST
from benchmarks.harness import Row

DRAWS = 2_000
"""Bootstrap samples."""
INTERVAL = (0.025, 0.975)

Value = Callable[[Record], float]
Measure = tuple[Value, Value]
"""A question's figure within 500 and within 2,000 tokens."""
SHARE: Measure = (attrgetter("share_500"), attrgetter("share_2000"))
"""Gold turns by the share of their text that is delivered."""
FOUND: Measure = (attrgetter("found_500"), attrgetter("found_2000"))
"""Gold turns all or not at all."""


def row(method: str, records: Sequence[Record], ingest_s: float) -> Row:
    """One method's figures: percentages are means over questions of each question's share."""
    stages = sorted({stage for record in records for stage in record.stages_ms})
    of_k = [record.k_ms for record in records if record.k_ms is not None]
    return {
        "method": method,
        "ours": method in OURS or method.split(":")[0] == MEMFOREST,
        "n": len(records),
        **_within(records),
        "recall_at_5": percent([record.recall_at_5 for record in records]),
        "recall_at_10": percent([record.recall_at_10 for record in records]),
        "recall_at_20": percent([record.recall_at_20 for record in records]),
        "all_at_10": percent([record.all_at_10 for record in records]),
        "mrr": percent([record.mrr for record in records]),
        "ndcg_10": percent([record.ndcg_10 for record in records]),
        "context_tokens": round(sum(record.context_tokens for record in records) / max(1, len(records))),
        "by_category": _by(records, lambda record: record.category),
        "by_conversation": _by(records, lambda record: record.conversation),
        "query_ms_p50": round(quantile([record.ms for record in records], 0.5), 2),
        "query_ms_p95": round(quantile([record.ms for record in records], 0.95), 2),
        "query_k_ms_p50": round(quantile(of_k, 0.5), 2) if of_k else None,
        "query_k_ms_p95": round(quantile(of_k, 0.95), 2) if of_k else None,
        "stages_ms_p50": {
            stage: round(quantile([record.stages_ms.get(stage, 0.0) for record in records], 0.5), 2) for stage in stages
        },
        "degraded": sum(bool(record.degraded) for record in records),
        "ingest_s": ingest_s,
    }


def _by(records: Sequence[Record], group: Callable[[Record], str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for name in dict.fromkeys(map(group, records)):
        own = [record for record in records if group(record) == name]
        found[name] = {"n": len(own), **_within(own)}
    return found


def _within(records: Sequence[Record]) -> Row:
    return {
        "share_500": percent([record.share_500 for record in records]),
        "share_2000": percent([record.share_2000 for record in records]),
        "recall_500": percent([record.found_500 for record in records]),
        "recall_2000": percent([record.found_2000 for record in records]),
    }


def comparison(
    ours: Sequence[Record], others: Mapping[str, Sequence[Record]], seed: int, measure: Measure = SHARE
) -> Row:
    """Ours against the foreign baseline that is best at each budget, all questions together.

    ``ratio_500`` is our figure within 500 tokens over theirs, ``misses_saved_2000`` the percentage of their misses
    within 2,000 tokens that we don't have, ``by_category`` paired differences in points with a 95% interval (percentile
    bootstrap, 2,000 draws, whole conversations drawn with replacement); ``below`` says that all of it is under 0.
    """
    within_500, within_2000 = measure
    full = {name: records for name, records in others.items() if name not in OURS and len(records) == len(ours) > 0}
    if not full:
        return {}
    best_500 = max(full, key=lambda name: _mean(full[name], within_500))
    best_2000 = max(full, key=lambda name: _mean(full[name], within_2000))
    theirs_500, theirs_2000 = _mean(full[best_500], within_500), _mean(full[best_2000], within_2000)
    missed = 1.0 - theirs_2000
    return {
        "best_500": best_500,
        "best_2000": best_2000,
        "ratio_500": round(_mean(ours, within_500) / theirs_500, 3) if theirs_500 else None,
        "misses_saved_2000": round(100 * (_mean(ours, within_2000) - theirs_2000) / missed, 1) if missed else None,
        "by_category_500": _differences(ours, full[best_500], within_500, seed),
        "by_category_2000": _differences(ours, full[best_2000], within_2000, seed),
    }


def by_type(ours: Sequence[Record], others: Mapping[str, Sequence[Record]], seed: int) -> dict[str, Row]:
    """Ours minus each other row, by share, for all questions and each type, as in ``comparison``.

    For each row ``500`` and ``2000``; rows that were not asked everything are compared over what both were asked.
    """
    return {
        name: {
            str(budget): _differences(ours, records, value, seed) for budget, value in zip(BUDGETS, SHARE, strict=True)
        }
        for name, records in others.items()
        if records
    }


def _mean(records: Sequence[Record], value: Value) -> float:
    return sum(map(value, records)) / len(records)


def _differences(ours: Sequence[Record], theirs: Sequence[Record], value: Value, seed: int) -> dict[str, Row]:
    """For all questions and for each category the paired difference in points."""
    other = {record.question_id: value(record) for record in theirs}
    pairs = [(record, value(record) - other[record.question_id]) for record in ours if record.question_id in other]
    if not pairs:
        return {}
    names = ["all", *dict.fromkeys(record.category for record, _ in pairs)]
    return {
        name: _difference([(one.conversation, gap) for one, gap in pairs if name in {"all", one.category}], seed)
        for name in names
    }


def _difference(gaps: Sequence[tuple[str, float]], seed: int) -> Row:
    low, high = interval(gaps, seed)
    middle = sum(gap for _, gap in gaps) / len(gaps)
    return {
        "n": len(gaps),
        "difference": round(100 * middle, 1),
        "low": round(100 * low, 1),
        "high": round(100 * high, 1),
        "below": high < 0.0,
    }


def interval(gaps: Sequence[tuple[str, float]], seed: int) -> tuple[float, float]:
    """The 95% interval of the mean of (conversation, value), when conversations are drawn and not questions.

    With one conversation there is nothing to draw: both ends are the mean.
    """
    names = list(dict.fromkeys(name for name, _ in gaps))
    sums = np.array([sum(gap for owner, gap in gaps if owner == name) for name in names])
    sizes = np.array([sum(owner == name for owner, _ in gaps) for name in names])
    drawn = np.random.default_rng(seed).integers(0, len(names), (DRAWS, len(names)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, INTERVAL)
    return float(low), float(high)
