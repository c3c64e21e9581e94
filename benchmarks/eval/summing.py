"""From records to rows, and to whether one method is better than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.eval.measuring import percent, quantile
from benchmarks.eval.records import Record
from benchmarks.harness import Row

DRAWS = 2_000
"""Bootstrap samples."""
INTERVAL = (0.025, 0.975)

Value = Callable[[Record], float]


def row(method: str, records: Sequence[Record], ingest_s: float) -> Row:
    """One method's figures: percentages are means over questions of each question's share."""
    stages = sorted({stage for record in records for stage in record.stages_ms})
    return {
        "method": method,
        "n": len(records),
        "recall_500": percent([record.found_500 for record in records]),
        "recall_2000": percent([record.found_2000 for record in records]),
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
        found[name] = {
            "n": len(own),
            "recall_500": percent([record.found_500 for record in own]),
            "recall_2000": percent([record.found_2000 for record in own]),
        }
    return found


def comparison(ours: Sequence[Record], baselines: Mapping[str, Sequence[Record]], seed: int) -> Row:
    """Ours against the baseline that is best at each budget.

    ``ratio_500`` is our recall within 500 tokens over theirs, ``misses_saved_2000`` the percentage of their misses
    within 2,000 tokens that we don't have, ``by_category`` paired differences in points with a 95% interval (percentile
    bootstrap, 2,000 draws, whole conversations drawn with replacement); ``below`` says that all of it is under 0.
    """
    full = {name: records for name, records in baselines.items() if len(records) == len(ours) > 0}
    if not full:
        return {}
    best_500 = max(full, key=lambda name: _mean(full[name], _within_500))
    best_2000 = max(full, key=lambda name: _mean(full[name], _within_2000))
    theirs_500, theirs_2000 = _mean(full[best_500], _within_500), _mean(full[best_2000], _within_2000)
    missed = 1.0 - theirs_2000
    return {
        "best_500": best_500,
        "best_2000": best_2000,
        "ratio_500": round(_mean(ours, _within_500) / theirs_500, 3) if theirs_500 else None,
        "misses_saved_2000": round(100 * (_mean(ours, _within_2000) - theirs_2000) / missed, 1) if missed else None,
        "by_category_500": _differences(ours, full[best_500], _within_500, seed),
        "by_category_2000": _differences(ours, full[best_2000], _within_2000, seed),
    }


def _within_500(record: Record) -> float:
    return record.found_500


def _within_2000(record: Record) -> float:
    return record.found_2000


def _mean(records: Sequence[Record], value: Value) -> float:
    return sum(map(value, records)) / len(records)


def _differences(ours: Sequence[Record], theirs: Sequence[Record], value: Value, seed: int) -> dict[str, Row]:
    """For all questions and for each category the paired difference in points."""
    other = {record.question_id: value(record) for record in theirs}
    pairs = [(record, value(record) - other[record.question_id]) for record in ours if record.question_id in other]
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
