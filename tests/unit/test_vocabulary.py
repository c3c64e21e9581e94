"""The check of .ci/vocabulary.py: which words it finds where, and which it allows."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "vocabulary.py"
spec = importlib.util.spec_from_file_location("vocabulary", SCRIPT)
assert spec and spec.loader
vocabulary = importlib.util.module_from_spec(spec)
spec.loader.exec_module(vocabulary)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "def f() -> None:\n    keptRows = 1\n", [(2, "kept")]),
        ("a.py", "send_again = 1\ndef test_send_again() -> None: ...\n", [(1, "again")]),
        ("memforest_core/beside.py", "", [(1, "beside")]),
        ("memforest_core/tended/__init__.py", "", [(1, "tended")]),
        ("a.py", '"""A word.\n\nStrike\noff.\n"""\n', [(3, "strike off")]),
        ("a.py", "x = 1  # the index is away\n", [(1, "away")]),
        ("memforest_core/a.py", 'x = "the index is away", r"away", f"{away}", "so"\n', [(1, "away")]),
        ("memforest_core/a.py", 'log("index_away")\n', [(1, "away")]),
        ("memforest_core/a.py", 'x = """\\\nYou are told"""\n', []),
        ("tests/a.py", 'x = "quoted talk: go away"\n', []),
        ("a.md", "Kept.\n`kept`, \"kept\" https://a.b/kept\n```\nkept\n```\nkept\n", [(1, "kept"), (6, "kept")]),
        ("a.md", "It holds the lock. Since when does it hold? It holds.\n", [(1, "holds")]),
        ("a.sql", "SELECT kept; -- kept rows\n", [(1, "kept")]),
        ("Makefile", "all:  ## write it anew\n", [(1, "anew")]),
        ("a.yml", "kept: 1\n# kept\n", [(2, "kept")]),
        ("a.toml", "kept = 1  # kept\n", [(1, "kept")]),
        ("a.md", "Right away, apart from this.\n", []),
        ("memforest_core/domain/words/a.py", 'x = "kept"\nkept = 1\n', [(2, "kept")]),
    ],
)  # fmt: skip
def test_a_refused_word_is_found(tmp_path: Path, path: str, text: str, found: list[tuple[int, str]]) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)

    assert [one[1:3] for one in vocabulary.findings(tmp_path, ["."], 0)] == found


def test_the_subject_of_a_commit_is_checked() -> None:
    found = list(vocabulary.check("commit 1", [(1, "prose", "Mend the cache")], []))

    assert [one[2] for one in found] == ["mend"]


def test_true_uses_are_few_and_have_a_reason() -> None:
    allowed = vocabulary.table("vocabulary-allowed.txt")

    assert len(allowed) <= 40
    assert all(len(one) == 3 and all(one) for one in allowed)
