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
SAME = 1e-9
"""Shares that differ by less are the same."""

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
    whole = [record.ms for record in records if record.ms is not None]
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
        "query_ms_p50": _time(whole, 0.5),
        "query_ms_p95": _time(whole, 0.95),
        "query_k_ms_p50": _time(of_k, 0.5),
        "query_k_ms_p95": _time(of_k, 0.95),
        "stages_ms_p50": {
            stage: round(quantile([record.stages_ms.get(stage, 0.0) for record in records], 0.5), 2) for stage in stages
        },
        "degraded": sum(bool(record.degraded) for record in records),
        "ingest_s": ingest_s,
    }


def _time(times_ms: Sequence[float], share: float) -> float | None:
    """A quantile; None for a row that was not timed."""
    return round(quantile(times_ms, share), 2) if times_ms else None


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

    For each row ``500`` and ``2000``; rows without all questions are compared over the questions that both have.
    """
    return {
        name: {
            str(budget): _differences(ours, records, value, seed) for budget, value in zip(BUDGETS, SHARE, strict=True)
        }
        for name, records in others.items()
        if records
    }


def adds(ours: Sequence[Record], variants: Mapping[str, Sequence[Record]], seed: int) -> dict[str, Row]:
    """What the part missing in each variant adds to ours: our share minus the variant's, over the questions of both.

    For each variant ``500`` and ``2000`` with the difference in points, its 95% interval with conversations drawn
    (``low``, ``high``) and with questions drawn (``question_low``, ``question_high``), and ``changed``: how many
    questions have another share at all. With few conversations the first interval is rough; the second is too narrow
    where questions about one conversation are alike.
    """
    return {
        name: {
            str(budget): _added(gaps, seed)
            for budget, value in zip(BUDGETS, SHARE, strict=True)
            if (gaps := _gaps(ours, records, value))
        }
        for name, records in variants.items()
    }


def _added(gaps: Sequence[tuple[Record, float]], seed: int) -> Row:
    of_conversations = _difference([(one.conversation, gap) for one, gap in gaps], seed)
    low, high = interval([(one.question_id, gap) for one, gap in gaps], seed)
    return {
        **{name: of_conversations[name] for name in ("n", "difference", "low", "high")},
        "question_low": round(100 * low, 1),
        "question_high": round(100 * high, 1),
        "changed": sum(abs(gap) > SAME for _, gap in gaps),
    }


def _gaps(ours: Sequence[Record], theirs: Sequence[Record], value: Value) -> list[tuple[Record, float]]:
    """Each of our records that the other row has too, with the difference of the figure."""
    other = {record.question_id: value(record) for record in theirs}
    return [(record, value(record) - other[record.question_id]) for record in ours if record.question_id in other]


def _mean(records: Sequence[Record], value: Value) -> float:
    return sum(map(value, records)) / len(records)


def _differences(ours: Sequence[Record], theirs: Sequence[Record], value: Value, seed: int) -> dict[str, Row]:
    """For all questions and for each category the paired difference in points."""
    pairs = _gaps(ours, theirs, value)
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
    groups: dict[str, list[float]] = {}
    for name, gap in gaps:
        groups.setdefault(name, []).append(gap)
    sums = np.array([sum(each) for each in groups.values()])
    sizes = np.array([len(each) for each in groups.values()])
    drawn = np.random.default_rng(seed).integers(0, len(groups), (DRAWS, len(groups)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, INTERVAL)
    return float(low), float(high)
