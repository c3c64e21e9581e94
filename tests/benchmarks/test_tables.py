"""A table of judged answers survives being written and read, and gives pass@k and accuracy without bias."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from benchmarks.eval.tables import Judged, Sample, Verdict, WrongTable, pass_at, read, table

HEAD = "method,model_size,question_type,qid,question,gold_answer,answer_1,answer_2,judge_1,judge_2\n"


def judged(verdicts: str, *, method: str = "memforest", category: str = "temporal", qid: str = "q1") -> Judged:
    """A row; a verdict is c, w or f."""
    named = {"c": Verdict.CORRECT, "w": Verdict.WRONG, "f": Verdict.FAILED}
    samples = tuple(Sample("" if one == "f" else "in May", named[one]) for one in verdicts)
    return Judged(method, "small", category, qid, "When did Ilka move?", "May", samples)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lacks the column method"),
        ("method,model_size,qid,question,gold_answer,answer_1,judge_1\n", "lacks the column question_type"),
        (HEAD.replace(",judge_2", ""), "lacks the column judge_2"),
        (HEAD.replace("answer_1,answer_2", "answer_2"), "lacks the column answer_1"),
        (HEAD + "m,s,t,q,Q,A,a,a,correct\n", "line 2: it has not as many cells"),
        (HEAD + "m,s,t,q,Q,A,a,a,correct,wrong,more\n", "line 2: it has not as many cells"),
        (HEAD + "m,s,t,q,Q,A,a,a,correct,perhaps\n", "line 2: judge_2 is 'perhaps'"),
        (HEAD + 'm,s,t,q,Q,A,a,"a', "unexpected end"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(WrongTable, match=says):
        read(path)


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_is_the_share_of_draws_with_a_correct_one(n: int) -> None:
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at(n, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_a_method_gets_pass_at_k_and_accuracy_by_category() -> None:
    rows = [
        judged("cc", qid="1"),
        judged("cw", qid="2", category="single-hop"),
        judged("ww", qid="3", category="single-hop"),
        judged("w", qid="1", method="bm25_turns"),
    ]
    ours, theirs = table(rows)
    assert (ours["method"], ours["n"], ours["pass_1"], ours["pass_2"]) == ("memforest", 3, 50.0, 66.7)
    assert "pass_3" not in ours
    assert ours["by_category"] == {"single-hop": {"n": 2, "accuracy": 25.0}, "temporal": {"n": 1, "accuracy": 100.0}}
    assert (theirs["method"], theirs["pass_1"]) == ("bm25_turns", 0.0)
