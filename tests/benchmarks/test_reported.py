"""A benchmark that measured nothing says so and fails."""

from __future__ import annotations

import pytest

from benchmarks.harness import Report, Row


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "Nothing was measured: there is no row."),
        ([{"n": 3}, {"n": 0}], "Nothing was measured: row 2 has n=0."),
        ([{"cells_a_second": 259.9, "model_calls": 0}], "Nothing was measured: row 1 has model_calls=0."),
        ([{"cells": 0}], "Nothing was measured: row 1 has cells=0."),
    ],
)
def test_a_row_that_measured_nothing_ends_the_benchmark_with_a_sentence(
    rows: list[Row], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        Report(1, as_json=True).end(rows, {})
    assert caught.value.code == sentence
    assert capsys.readouterr().out == ""


def test_rows_that_count_other_things_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    Report(1, as_json=True).end([{"n": 1, "lost": 0, "llm_calls": 0}], {})
    assert '"lost": 0' in capsys.readouterr().out
