"""Answers and their verdicts as a CSV with the columns of the paper's artifact, and the tables that follow from it."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.eval.measuring import flat
from benchmarks.harness import Row

COLUMNS = ("method", "model_size", "question_type", "qid", "question", "gold_answer")
"""The columns before ``answer_1 .. answer_n, judge_1 .. judge_n``."""
MAX_K = 8
"""pass@k is given up to this k."""
PASS_1 = "pass_1"
"""The figure that is called accuracy."""
MAX_CELL_CHARS = 1_000_000
_SAMPLE = re.compile(r"(answer|judge)_([1-9]\d*)")


class Verdict(StrEnum):
    """What became of one sample."""

    CORRECT = "correct"
    WRONG = "wrong"
    FAILED = "failed"
    """No answer or no verdict came: it counts neither for nor against the method."""


class WrongTable(Exception):
    """The file is no such table; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to a question, and whether it was judged correct."""

    answer: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """One line: what a method answered to one question."""

    method: str
    model_size: str
    question_type: str
    qid: str
    question: str
    gold_answer: str
    samples: tuple[Sample, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """A table has each of these once."""
        return self.method, self.model_size, self.qid

    @property
    def judged(self) -> int:
        """Samples that have a verdict."""
        return sum(sample.verdict is not Verdict.FAILED for sample in self.samples)

    @property
    def correct(self) -> int:
        """Samples that were judged correct."""
        return sum(sample.verdict is Verdict.CORRECT for sample in self.samples)


def header(samples: int) -> list[str]:
    """The first line of a table with so many samples a question."""
    numbers = range(1, samples + 1)
    return [*COLUMNS, *(f"answer_{number}" for number in numbers), *(f"judge_{number}" for number in numbers)]


def cells(row: Judged, samples: int) -> list[str]:
    """A row's cells. Each is one line of text, so that a line of the file is a row; samples not taken are empty."""
    missing = [""] * (samples - len(row.samples))
    answers = [*(sample.answer for sample in row.samples), *missing]
    verdicts = [*(sample.verdict.value for sample in row.samples), *missing]
    named = (row.method, row.model_size, row.question_type, row.qid, row.question, row.gold_answer)
    return [flat(cell) for cell in (*named, *answers, *verdicts)]


def write(path: Path, rows: Iterable[Judged], samples: int) -> None:
    """Write a table in place of the one that is there; a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    concurrent = path.with_name(f"{path.name}.new")
    with concurrent.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header(samples))
        writer.writerows(cells(row, samples) for row in rows)
    os.replace(concurrent, path)


def read(path: Path, *, torn: bool = False) -> list[Judged]:
    """The rows of a table; of two with the same key the later. Raises WrongTable.

    ``torn``: a last line without its end was being written when somebody was killed, and is left out.
    """
    try:
        raw = path.read_bytes()
        # The first line is written at one go with the file: without its end it is somebody else's.
        text = (raw[: raw.rfind(b"\n") + 1] or raw if torn else raw).decode("utf-8-sig")
    except OSError as error:
        raise WrongTable(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise WrongTable(f"{path} is not UTF-8 text.") from None
    if torn and not text:
        return []
    csv.field_size_limit(MAX_CELL_CHARS)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows: dict[tuple[str, str, str], Judged] = {}
    try:
        numbers = _numbers(reader.fieldnames or (), str(path))
        for cell in reader:
            if None in cell or None in cell.values():
                raise WrongTable(f"{path}, line {reader.line_num}: it has not as many cells as there are columns.")
            row = _row(cell, numbers, f"{path}, line {reader.line_num}")
            rows[row.key] = row
    except csv.Error as error:
        raise WrongTable(f"{path}, line {reader.line_num}: {error}.") from None
    return list(rows.values())


def _numbers(columns: Sequence[str], name: str) -> list[int]:
    """The numbers of the samples. Raises WrongTable for a missing column."""
    missing = [column for column in COLUMNS if column not in columns]
    found: dict[str, set[int]] = {"answer": {1}, "judge": {1}}
    for column in columns:
        match = _SAMPLE.fullmatch(column)
        if match:
            found[match[1]].add(int(match[2]))
    numbers = sorted(found["answer"] | found["judge"])
    missing += [f"{kind}_{number}" for kind in found for number in numbers if f"{kind}_{number}" not in columns]
    if missing:
        raise WrongTable(f"{name} lacks the column {', '.join(missing)}: it needs {', '.join(header(1))}.")
    return numbers


def _row(raw: Mapping[str, str], numbers: Sequence[int], where: str) -> Judged:
    samples = []
    for number in numbers:
        answer, verdict = raw[f"answer_{number}"], raw[f"judge_{number}"].strip().casefold()
        if not answer and not verdict:
            continue
        # An answer that nobody judged is not a wrong one.
        if verdict and verdict not in set(Verdict):
            raise WrongTable(f"{where}: judge_{number} is {verdict!r:.30}, not correct, wrong or failed.")
        samples.append(Sample(answer, Verdict(verdict or Verdict.FAILED)))
    return Judged(
        raw["method"],
        raw["model_size"],
        raw["question_type"],
        raw["qid"],
        raw["question"],
        raw["gold_answer"],
        tuple(samples),
    )


def pass_at(judged: int, correct: int, k: int) -> float:
    """The probability that one of ``k`` samples, drawn from those judged, is correct.

    1 - C(n-c, k) / C(n, k), without bias (Chen et al., 2021, Evaluating Large Language Models Trained on Code).
    Raises ValueError when fewer than ``k`` were judged.
    """
    if not 1 <= k <= judged:
        raise ValueError(f"pass@{k} needs {k} judged samples, not {judged}")
    return 1.0 - math.comb(judged - correct, k) / math.comb(judged, k)


def table(rows: Sequence[Judged]) -> list[Row]:
    """For each method and model pass@1 .. pass@8, and the accuracy (pass@1) by category, in percent.

    pass_k is ``pass_at`` of all judged samples, a mean over the questions with at least k of them; ``questions_k`` says
    how many these are when they are not all. ``failed`` counts samples without a verdict.
    """
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for row in rows:
        groups[row.method, row.model_size].append(row)
    return [_summary(method, size, group) for (method, size), group in groups.items()]


def _summary(method: str, size: str, rows: Sequence[Judged]) -> Row:
    passes: Row = {}
    for k in range(1, MAX_K + 1):
        enough = [row for row in rows if row.judged >= k]
        if enough:
            passes[f"pass_{k}"] = _percent([pass_at(row.judged, row.correct, k) for row in enough])
            if len(enough) < len(rows):
                passes[f"questions_{k}"] = len(enough)
    return {
        "method": method,
        "model_size": size,
        "n": len(rows),
        "failed": sum(len(row.samples) - row.judged for row in rows),
        **passes,
        "by_category": _by_category(rows),
    }


def _by_category(rows: Sequence[Judged]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for name in sorted({row.question_type for row in rows}):
        own = [row for row in rows if row.question_type == name and row.judged]
        if own:
            found[name] = {"n": len(own), "accuracy": _percent([pass_at(row.judged, row.correct, 1) for row in own])}
    return found


def _percent(fractions: Sequence[float]) -> float:
    return round(100 * sum(fractions) / len(fractions), 1)
