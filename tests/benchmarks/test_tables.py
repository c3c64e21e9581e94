"""A table of judged answers survives being written and read, and gives pass@k and accuracy without bias."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from benchmarks.eval.tables import Judged, Sample, Verdict, WrongTable, first, main, pass_at, read, table, write

HEAD = "method,model_size,question_type,qid,question,gold_answer,answer_1,answer_2,judge_1,judge_2\n"


def judged(verdicts: str, *, method: str = "memforest", category: str = "temporal", qid: str = "q1") -> Judged:
    """A row; a verdict is c, w or f."""
    named = {"c": Verdict.CORRECT, "w": Verdict.WRONG, "f": Verdict.FAILED}
    samples = tuple(Sample("" if one == "f" else "in May", named[one]) for one in verdicts)
    return Judged(method, "small", category, qid, "When did Ilka move?", "May", samples)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [judged("cw", qid="a"), judged("f", qid="b"), judged("", qid="c")]
    write(tmp_path / "answers.csv", rows, 2)
    assert read(tmp_path / "answers.csv") == rows


def test_a_row_is_one_line_whatever_the_texts_are(tmp_path: Path) -> None:
    text = 'He said "no",\r\nthen\u2028left\x00; \ud800'
    row = Judged("m", "s", "t", "q", text, text, (Sample(text, Verdict.WRONG),))
    write(tmp_path / "answers.csv", [row], 1)
    assert (tmp_path / "answers.csv").read_bytes().count(b"\n") == 2
    (back,) = read(tmp_path / "answers.csv")
    assert back.question == back.samples[0].answer
    assert back.question.startswith('He said "no", then left')


def test_the_columns_are_those_of_the_artifact(tmp_path: Path) -> None:
    write(tmp_path / "answers.csv", [], 2)
    assert (tmp_path / "answers.csv").read_text() == HEAD


def test_a_table_of_somebody_else_is_read(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    # Other columns, another order, a byte order mark, line ends of Windows, quoted line breaks, other words.
    path.write_text(
        "\ufeffqid,note,judge_1,answer_1,method,model_size,question_type,question,gold_answer,answer_2,judge_2\r\n"
        '7,x,TRUE,"one\r\ntwo",m,30B,multi,Q?,A,,\r\n8,x,0,no,m,30B,multi,Q?,A,yes,Correct\r\n9,,Error,,m,30B,multi,Q,A,so,\r\n',
        newline="",
    )
    verdicts = {row.qid: [sample.verdict.value for sample in row.samples] for row in read(path)}
    assert verdicts == {"7": ["correct"], "8": ["wrong", "correct"], "9": ["failed", "failed"]}


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


def test_a_missing_file_and_bytes_are_no_table_either(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("none.csv", "bytes.csv"):
        with pytest.raises(WrongTable, match=name):
            read(tmp_path / name)


def test_a_torn_last_line_is_left_out_only_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    write(path, [judged("c", qid="a"), judged("c", qid="b")], 1)
    path.write_bytes(path.read_bytes()[:-20])
    assert [row.qid for row in read(path, torn=True)] == ["a"]
    with pytest.raises(WrongTable):
        read(path)


def test_of_two_rows_with_one_key_the_later_counts(tmp_path: Path) -> None:
    write(tmp_path / "answers.csv", [judged("f"), judged("c")], 1)
    assert read(tmp_path / "answers.csv") == [judged("c")]


@pytest.mark.parametrize("n", range(1, 7))
def test_pass_at_k_is_the_share_of_draws_with_a_correct_one(n: int) -> None:
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at(n, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_needs_k_samples() -> None:
    for k in (0, 3):
        with pytest.raises(ValueError, match="needs"):
            pass_at(2, 1, k)


def test_the_first_k_are_the_artifacts_pass_at_k() -> None:
    """Given the verdicts wrong, correct, wrong, correct, then by the artifact's way judge_1 alone is pass@1 and each
    later k has a correct one; by draws it is 2 of 4, 5 of 6, 1, 1."""
    verdicts = [Verdict.WRONG, Verdict.CORRECT, Verdict.WRONG, Verdict.CORRECT]
    assert [first(verdicts, k) for k in range(1, 5)] == [False, True, True, True]
    assert [pass_at(4, 2, k) for k in range(1, 5)] == pytest.approx([1 / 2, 5 / 6, 1, 1])
    for wrong in (0, 5):
        with pytest.raises(ValueError, match="needs"):
            first(verdicts, wrong)
    with pytest.raises(ValueError, match="judged"):
        first([Verdict.FAILED, Verdict.CORRECT], 2)


def test_both_ways_stand_in_the_table() -> None:
    (row,) = table([judged("wcwc", qid="1"), judged("cwww", qid="2"), judged("fccc", qid="3")])
    assert [row[f"pass_{k}"] for k in (1, 2, 3, 4)] == [58.3, 77.8, 91.7, 100.0]
    assert [row[f"first_{k}"] for k in (1, 2, 3, 4)] == [50.0, 100.0, 100.0, 100.0]
    assert (row["first_questions_1"], row["questions_4"]) == (2, 2)
    assert "questions_1" not in row


@pytest.mark.parametrize("n, correct, k", [(8, 5, 1), (8, 5, 3), (6, 2, 2)])
def test_over_all_orders_both_ways_are_the_same(n: int, correct: int, k: int) -> None:
    orders = set(itertools.permutations([Verdict.CORRECT] * correct + [Verdict.WRONG] * (n - correct), n))
    assert sum(first(order, k) for order in orders) / len(orders) == pytest.approx(pass_at(n, correct, k))


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
    assert ours["by_category"] == {
        "single-hop": {"n": 2, "accuracy": 25.0},
        "temporal": {"n": 1, "accuracy": 100.0},
    }
    assert (theirs["method"], theirs["pass_1"]) == ("bm25_turns", 0.0)


def test_a_failed_sample_is_not_a_wrong_one() -> None:
    (row,) = table([judged("cf", qid="1"), judged("cc", qid="2"), judged("ff", qid="3")])
    assert row["failed"] == 3
    assert (row["pass_1"], row["questions_1"]) == (100.0, 2)
    assert (row["pass_2"], row["questions_2"]) == (100.0, 1)
    assert row["by_category"] == {"temporal": {"n": 2, "accuracy": 100.0}}


def test_when_everything_failed_there_is_no_accuracy() -> None:
    (row,) = table([judged("f")])
    assert "pass_1" not in row
    assert row["by_category"] == {}


def test_the_command_prints_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answers.csv"
    write(path, [judged("cw")], 2)
    assert main([str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["pass_1"], row["pass_2"]) == (50.0, 100.0)
    assert main([str(path)]) == 0
    assert "pass_1=50.0" in capsys.readouterr().out


def test_the_command_says_in_one_sentence_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("method,qid\n")
    assert main([str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "lacks the column model_size" in told.err
