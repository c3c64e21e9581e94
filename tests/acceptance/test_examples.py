"""The examples, on scripts of inputs, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memforest_core import MemForest

ROOT = Path(__file__).parents[2]


def run(example: str, *arguments: object, lines: str = "") -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMFOREST_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), *map(str, arguments)],
        input=lines,
        capture_output=True,
        text=True,
        timeout=170,
        cwd=ROOT,
        env=clean | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_the_chatbot_remembers_across_runs(tmp_path: Path) -> None:
    """Given a chat of yesterday, when the program runs again, then it knows what was said, and what the user wanted it
    to remember and to forget."""
    data = tmp_path / "memory"
    first = run(
        "chatbot.py",
        *("--data", data),
        lines="I adopted a parrot called Kiwi.\nRemember that I moved to Lisbon.\nThe train took four hours.\n/quit\n",
    )
    assert "I will." in first

    second = run(
        "chatbot.py",
        *("--data", data),
        lines="What is my parrot called?\n/profile\nForget that I moved to Lisbon.\n/profile\n",
    )

    answer, _, rest = second.partition("> /profile")
    assert "Kiwi" in answer
    before, _, after = rest.partition("> Forget that")
    assert "Lisbon" in before
    assert "Forgotten:" in after and "Lisbon" not in after.partition("> /profile")[2]


def test_the_group_chat_knows_its_members(tmp_path: Path) -> None:
    """Given ten days of five members, one of whom changed the nickname, and commands in words, then each has one profile
    with what is true now and a week of their own, and a prompt for a channel has nothing of another one."""
    shown = run("group_chat.py", "--data", tmp_path / "memory")

    profiles, _, prompts = shown.partition("# Prompt for")
    commands, _, profiles = profiles.partition("# gruzilkin")
    assert "Forgotten: Anneke lives in Utrecht." in commands and "moved to Annecy" in commands.partition("Sergey?")[2]
    members = dict(zip(("gruz", "Florent", "mira", "Anneke", "Tolu"), profiles.split("\n# "), strict=True))
    assert "Utrecht" not in profiles and '"she is allergic to peanuts"' in members["Tolu"].partition("The week")[0]
    for word, whose in {"helmet": "Florent mira", "rope": "gruz", "ankle": "Florent", "waffles": "Anneke Tolu"}.items():
        assert {name for name, text in members.items() if word in text.partition("The week")[2]} == {*whose.split()}
    profiles = f"# gruzilkin{profiles}"
    assert "Annecy" in profiles and "Lyon" not in profiles
    assert "bakery" in profiles and "Pixel" in profiles
    assert "# gruzilkin" in profiles
    assert "carpenter" in profiles.partition("# gruzilkin")[2].partition("\n\n")[0], "what Mira said of <@111>"
    trips = next(part for part in prompts.split("# Prompt for") if " in trips" in part).partition("# Who has")[0]
    assert "I made sandwiches for everybody." in trips
    assert "climbing in the rain" not in trips.partition("<evidence>")[2]
    requested = shown.partition("# Who has")[2]
    assert "helmet" in requested and "rope" in requested


def test_the_group_chat_reads_a_file(tmp_path: Path) -> None:
    turns = tmp_path / "chat.jsonl"
    said = {"day": 9, "channel": "lab", "id": "7", "name": "ada", "text": "I live in London."}
    turns.write_text(json.dumps(said) + "\n")

    assert "London" in run("group_chat.py", "--turns", turns, "--data", tmp_path / "memory")


def test_the_first_example_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code under "Use it" is run as it is written."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Use it")[2]
    code = text.partition("```python\n")[2].partition("```")[0]
    assert "memory.context(" in code
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"MemForest": MemForest}

    exec(compile(code, "README.md", "exec"), scope)

    assert "Davis" in str(scope["prompt"])
