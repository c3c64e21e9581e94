"""``python -m benchmarks.eval.report OUT_DIR``: a run as a Markdown report, finished or not.

All figures are computed from the records, so that a report can't differ from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.eval.answers import ANSWERS
from benchmarks.eval.baseline_rows import BASELINES, shown
from benchmarks.eval.losses import loss_table
from benchmarks.eval.records import RESULT, Record, WrongRun, by_method, read_records, read_run
from benchmarks.eval.summing import ALL, COMPARED, comparison, differences, row
from benchmarks.eval.tables import MAX_K, WrongTable, read, table
from benchmarks.eval.variants import MEMFOREST, is_variant
from benchmarks.harness import Row, say

MAX_CONVERSATIONS = 12
"""With more, a table by conversation says nothing."""
MEASURED = ("dataset", "file", "transform", "limit", "conversations", "seed", "jobs", "chat_model", "embedding_model")
MEASURES = {
    "share_500": "share, 500 tokens",
    "share_2000": "share, 2,000 tokens",
    "recall_500": "recall, 500 tokens",
    "recall_2000": "recall, 2,000 tokens",
    "first": "first",
    "third": "first three",
    "outdated_above": "outdated above",
    "same_first": "same first",
    "complete_500": "complete, 500",
    "complete_2000": "complete, 2,000",
    "auc": "AUC of confidence",
    "recall_at_5": "recall@5",
    "recall_at_10": "recall@10",
    "recall_at_20": "recall@20",
    "all_at_10": "all@10",
    "mrr": "MRR",
    "ndcg_10": "nDCG@10",
    "context_tokens": "tokens of 10",
    "query_ms_p50": "p50 ms",
    "query_ms_p95": "p95 ms",
    "query_k_ms_p50": "p50 ms of k",
    "query_k_ms_p95": "p95 ms of k",
}
SPLIT = {
    "Share within 500 / 2,000 tokens.": ("share_500", "share_2000"),
    "First / first three / outdated above / same first / complete within 2,000 tokens.": COMPARED[2:],
}
"""The tables by group: what is in a cell, and the measures."""
LOSSES = {
    "not_stored": "never stored: no cell holds the turn",
    "not_recalled": "recall: not among 1,000 candidates",
    "below_200": "ranking: a candidate, below the first 200 pieces",
    "cut_2000": "budget: among the first 200 pieces, cut by 2,000 tokens",
    "cut_500": "budget: within 2,000 tokens, cut by 500",
    "found_2000": "found within 2,000 tokens",
    "found_500": "found within 500 tokens",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One run as it was read."""

    run: Mapping[str, Any]
    records: Mapping[str, list[Record]]
    rows: Sequence[Row]
    answers: Sequence[Row]
    """Rows of ``tables.table``; empty when no answers were taken."""

    @property
    def seed(self) -> int:
        return int(self.run.get("seed", 0))

    @property
    def ours(self) -> list[Record]:
        """The records of the default configuration."""
        return self.records.get(MEMFOREST, [])


def measured(directory: Path) -> Measured:
    """Read a run. Raises WrongRun and WrongTable."""
    run, records = read_run(directory), by_method(read_records(directory))
    if not records:
        raise WrongRun(f"{directory} holds no records yet: run python -m benchmarks.eval --out {directory} first.")
    result = directory / RESULT
    ended = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    ingest_s = float(ended.get("measured", {}).get("ingest_s", 0.0))
    rows = [row(method, found, ingest_s) for method, found in records.items()]
    path = directory / ANSWERS
    return Measured(run, records, rows, table(read(path, torn=True)) if path.exists() else [])


def grid(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    made = ["| " + " | ".join(heads) + " |", "|" + "|".join(["---", *["---:"] * (len(heads) - 1)]) + "|"]
    made += ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]
    return "\n".join(made)


def _cell(cell: object) -> str:
    return ("" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)).replace("|", "\\|")


def markdown(found: Measured) -> str:
    """The report's text."""
    sections = (
        ("Measured", _about(found)),
        ("All questions", _headline(found)),
        ("By category", _by(found, "by_category")),
        ("By conversation", _by(found, "by_conversation")),
        ("Against each baseline", _against(found)),
        ("What each part adds", _ablation(found)),
        ("Where the evidence is lost", _losses(found)),
        ("Answers", _answers(found)),
    )
    return (
        "# Evaluation of recall\n\n" + "\n\n".join(f"## {title}\n\n{text}" for title, text in sections if text) + "\n"
    )


def _about(found: Measured) -> str:
    described = [
        f"* {name.replace('_', ' ')}: {found.run[name]}" for name in MEASURED if found.run.get(name) is not None
    ]
    counts = {name: sum(one.answerable for one in records) for name, records in found.records.items()}
    most = max(counts.values())
    described.append(f"* questions: {most}")
    late = [f"{name} ({count})" for name, count in counts.items() if count < most]
    if late:
        described.append(f"* **not finished**, with the questions that were asked: {', '.join(late)}")
    degraded = [f"{one['method']} ({one['degraded']})" for one in found.rows if one["degraded"]]
    if degraded:
        described.append(f"* questions answered with a part unavailable: {', '.join(degraded)}")
    return "\n".join(described)


def _own(rows: Sequence[Row]) -> list[Row]:
    """The default configuration and what it is compared with."""
    return [one for one in rows if not is_variant(str(one["method"]))]


def _headline(found: Measured) -> str:
    heads = ["method", *MEASURES.values()]
    lines = [
        [
            shown(str(one["method"])),
            *(_figures(one, [name]) if f"n_{name}" in one else one.get(name) for name in MEASURES),
        ]
        for one in _own(found.rows)
    ]
    return (
        "Share: how much of the gold turns' text is delivered; recall: how many of them are found, each all or not at"
        " all. Recall@k, all@10, MRR and nDCG count items, which favours methods with big items: see the tokens of 10."
        " p50 and p95 are of the query whose items are measured (up to 200), those of k of one for the configured"
        f" number of pieces.\n\n{grid(heads, lines)}"
    )


def _by(found: Measured, group: str) -> str:
    """Shares and ranks by a group of questions."""
    rows = _own(found.rows)
    parts = [_groups(one[group]) for one in rows]
    names = {name: int(str(cell["n"])) for part in parts for name, cell in part.items()}
    if len(names) > MAX_CONVERSATIONS or len(names) < 2:
        return ""
    tables = []
    for title, measures in SPLIT.items():
        lines = [
            [shown(str(one["method"])), *(_figures(part.get(name, {}), measures) for name in names)]
            for one, part in zip(rows, parts, strict=True)
        ]
        tables.append(f"{title}\n\n{grid(['method', *(f'{name} ({n})' for name, n in names.items())], lines)}")
    return "\n\n".join(tables)


def _groups(cell: object) -> Mapping[str, Row]:
    return cell if isinstance(cell, dict) else {}


def _figures(cell: Row, measures: Sequence[str]) -> str:
    """Figures with slashes between them, each of fewer questions than the group with their number."""
    if not cell:
        return ""
    counts = [f" (n={cell[f'n_{name}']})" if f"n_{name}" in cell else "" for name in measures]
    return " / ".join(f"{cell.get(name, '-')}{count}" for name, count in zip(measures, counts, strict=True))


def _against(found: Measured) -> str:
    """Our figures minus each baseline's, by type of question."""
    flat = {name: records for name, records in found.records.items() if name in BASELINES}
    described: Mapping[str, Any] = comparison(found.ours, flat) if found.ours and flat else {}
    if not described:
        return ""
    times, saved = described["ratio_500"][described["best_500"]], described["misses_saved_2000"]
    by_row = {name: differences(found.ours, records, found.seed) for name, records in flat.items()}
    types = list(dict.fromkeys(name for one in by_row.values() for name in one["first"]))
    parts = [
        f"{measure}:\n\n"
        + grid(
            ["minus", *types], [[shown(row), *(_cell_of(cells.get(name)) for name in types)] for row, cells in lines]
        )
        for measure in COMPARED
        if (lines := [(row, one[measure]) for row, one in by_row.items() if measure in one])
    ]
    return (
        f"By share. Within 500 tokens {described['best_500']} is the best foreign baseline"
        + (" and delivers nothing" if times is None else f"; {MEMFOREST} has {times} times its share")
        + f". Within 2,000 it is {described['best_2000']}"
        + (", which misses nothing" if saved is None else f"; {MEMFOREST} misses {saved}% less")
        + f". {MEMFOREST} minus each baseline, in points, with the 95% interval when questions are drawn.\n\n"
        + "\n\n".join(parts)
    )


def _cell_of(cell: Mapping[str, Any] | None) -> str:
    return f"{cell['difference']:+.1f} [{cell['low']:.1f}, {cell['high']:.1f}]" if cell else ""


def _ablation(found: Measured) -> str:
    """The default configuration minus each variant, over the questions that both have records of."""
    variants = {name: records for name, records in found.records.items() if is_variant(name)}
    lines = []
    for name, records in variants.items() if found.ours else ():
        described = {measure: cells[ALL] for measure, cells in differences(found.ours, records, found.seed).items()}
        changed = described["share_500"]["changed"]
        cells = (_cell_of(described.get(measure)) for measure in COMPARED)
        lines.append([name.removeprefix(f"{MEMFOREST}:"), *cells, changed])
    if not lines:
        return ""
    return (
        f"{MEMFOREST} minus variant, in points: what the missing part adds, with the 95% interval when questions are"
        " drawn; changed: questions with another share within 500 tokens.\n\n"
        + grid(["variant", *COMPARED, "changed"], lines)
    )


def _losses(found: Measured) -> str:
    described = loss_table([record for record in found.ours if record.answerable])
    if not described:
        return ""
    lines = [[words, described[name]] for name, words in LOSSES.items() if name in described]
    return (
        f"Percent of the {described['gold_turns']} gold turns, for {MEMFOREST}; each is found or lost as a whole.\n\n"
        + grid(["stage", "%"], lines)
    )


def _answers(found: Measured) -> str:
    """pass@k and accuracy by category, as ``benchmarks.eval.tables`` computes them."""
    if not found.answers:
        return ""
    ks = [k for k in range(1, MAX_K + 1) if any(f"pass_{k}" in one for one in found.answers)]
    passes = [
        [one["method"], one["model_size"], one["n"], one["failed"], *(one.get(f"pass_{k}") for k in ks)]
        for one in found.answers
    ]
    parts = [_groups(one["by_category"]) for one in found.answers]
    names = list(dict.fromkeys(name for part in parts for name in part))
    accuracy = [
        [one["method"], *(part[name]["accuracy"] if name in part else None for name in names)]
        for one, part in zip(found.answers, parts, strict=True)
    ]
    heads = ["method", "model", "questions", "failed samples", *(f"pass@{k}" for k in ks)]
    return f"{grid(heads, passes)}\n\nAccuracy (pass@1) by category.\n\n{grid(['method', *names], accuracy)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report; exit code 2, with one sentence, for what the caller can put right."""
    options = argparse.ArgumentParser(description="Write a run's report.")
    options.add_argument("directory", type=Path, help="what was given to python -m benchmarks.eval with --out")
    options.add_argument("--to", type=Path, help="the report's file (default: report.md in the directory)")
    arguments = options.parse_args(argv)
    to = arguments.to or arguments.directory / "report.md"
    try:
        found = measured(arguments.directory)
    except (WrongRun, WrongTable) as error:
        say(str(error))
        return 2
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(markdown(found), encoding="utf-8")
    print(to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
