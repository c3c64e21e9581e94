"""A report shows what the records say, of a finished run and of one that was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.answers import ANSWERS
from benchmarks.eval.records import RESULT, Record, RecordFile
from benchmarks.eval.report import main, markdown, measured
from benchmarks.eval.tables import Judged, Sample, Verdict
from benchmarks.eval.tables import write as write_table

RUN = {"dataset": "own", "file": "own.json", "seed": 7, "chat_model": "offline", "transform": None}


def record(method: str, number: int, near: float, far: float = 1.0, **changes: Any) -> Record:
    given: dict[str, Any] = {
        "method": method,
        "conversation": f"own-{number % 2 + 1}",
        "question_id": f"q{number}",
        "category": "temporal" if number < 2 else "single-hop",
        "gold": ("D1:1",),
        "share_500": near,
        "share_2000": far,
        "found_500": near,
        "found_2000": far,
        "ranks": (1,),
        "recall_at_5": near,
        "recall_at_10": near,
        "recall_at_20": far,
        "all_at_10": near,
        "mrr": near,
        "ndcg_10": near,
        "context_tokens": 1_200,
        "ms": 20.0 + number,
        "stages_ms": {"search": 15.0},
    }
    return Record(**(given | changes))


RECORDS_OF_ALL = [
    *(record("bm25_turns", n, float(n == 0), float(n < 2)) for n in range(4)),
    *(record("dense_turns", n, float(n < 2), float(n < 2), stages_ms={"embed": 9.0, "search": 1.0}) for n in range(4)),
    *(
        record("memforest", n, float(n < 3), losses={"gold": 1} if n < 3 else {"gold": 1, "cut_500": 1})
        for n in range(4)
    ),
    *(record("memforest:no-dense", n, float(n < 1)) for n in range(4)),
]


def run_in(directory: Path, records: list[Record]) -> Path:
    with RecordFile(directory, RUN, resume=False) as file:
        for one in records:
            file.add(one)
    return directory


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n\n")[1].split("\n\n## ")[0]


def cells(text: str, first: str) -> list[str]:
    """The cells of the table row that begins with this."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_method_has_a_row_with_its_figures(tmp_path: Path) -> None:
    text = markdown(measured(run_in(tmp_path, RECORDS_OF_ALL)))
    headline = section(text, "All questions")
    assert cells(headline, "memforest")[1:3] == ["75.0", "100.0"]
    assert cells(headline, "dense_turns")[1:3] == ["50.0", "50.0"]
    assert cells(headline, "memforest")[-5] == "1,200"
    # Variants have a table of their own.
    assert "no-dense" not in headline


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_in(tmp_path / "run", RECORDS_OF_ALL)
    write_table(
        run / ANSWERS, [Judged("memforest", "m", "temporal", "q0", "Q", "A", (Sample("a", Verdict.CORRECT),))], 1
    )
    (run / RESULT).write_text(json.dumps({"rows": [], "measured": {"ingest_s": 12.5}}))
    to = tmp_path / "notes" / "recall.md"
    assert main([str(run), "--to", str(to)]) == 0
    assert capsys.readouterr().out.strip() == str(to)
    assert "## All questions" in to.read_text()
