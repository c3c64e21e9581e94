"""Instructions from files: they replace what may be replaced, and a file that can't be used is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from memforest_core.assistant import condensing
from memforest_core.assistant.profile import describing
from memforest_core.errors import InvalidSettings
from memforest_core.ingest.extract import extraction_prompt as extraction
from memforest_core.ingest.refresh import summarizer
from memforest_core.models.answers import DATA_ONLY, MAX_CHARS, Prompts, instructions_with, named, open_prompts
from memforest_core.recall import answer as answering
from memforest_core.recall import browse, plan
from memforest_core.settings import ExtractSettings, PromptName

FRAMES = {
    "extract": (extraction.SYSTEM, extraction.FRAME),
    "summarize": (summarizer._SYSTEM, summarizer._FRAME),
    "browse": (browse._SYSTEM, browse._FRAME),
    "plan": (plan._PLAN, plan._PLAN_FRAME),
    "rewrite": (plan._REWRITE, plan._REWRITE_FRAME),
    "answer": (answering.SYSTEM, answering.FRAME),
    "profile": (describing.SYSTEM + DATA_ONLY, describing.FRAME + DATA_ONLY),
    "window": (condensing.WINDOW_SYSTEM + DATA_ONLY, condensing.WINDOW_FRAME + DATA_ONLY),
    "calendar": (condensing.DAY_SYSTEM + DATA_ONLY, condensing.DAY_FRAME + DATA_ONLY),
    "calendar, of longer times": (condensing.PERIOD_SYSTEM + DATA_ONLY, condensing.PERIOD_FRAME + DATA_ONLY),
}
OWN = "Mind the {harbour}."


def test_there_is_a_frame_for_each_prompt() -> None:
    assert {name.partition(",")[0] for name in FRAMES} == set(Prompts.__slots__) == set(get_args(PromptName))


@pytest.mark.parametrize("name", FRAMES)
def test_own_instructions_come_before_the_frame_which_is_always_there(name: str) -> None:
    built_in, frame = FRAMES[name]
    assert instructions_with(built_in, None, frame) == built_in
    assert instructions_with(built_in, OWN, frame) == f"{OWN}\n\n{frame}"
    assert "data" in frame
    assert "JSON" in frame
    for part in frame.strip().split("\n\n"):
        if name != "summarize":
            assert part in built_in


def test_own_instructions_are_part_of_the_keys_and_without_them_keys_stay() -> None:
    assert extraction.fixed_part(ExtractSettings()) == extraction.SYSTEM
    assert extraction.fixed_part(ExtractSettings(instructions="x"), OWN).startswith(OWN)
    assert summarizer.keyed_model("m", None) == named("m", "any", None) == "m"
    keys = {summarizer.keyed_model("m", own) for own in (None, OWN, OWN + "!")}
    assert len(keys) == 3


def test_files_are_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "extract.txt"
    path.write_bytes(b"\xef\xbb\xbf  " + OWN.encode() + b"\x00\n\n")
    assert open_prompts({}) == Prompts()
    found = open_prompts({"extract": path})
    assert found == Prompts(extract=OWN)
    assert found.replaced == ("extract",)
    path.write_text("ü" * MAX_CHARS)
    assert len(open_prompts({"answer": path}).answer or "") == MAX_CHARS


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "can't be read"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * (MAX_CHARS + 1), "20,000 characters"),
        (b"\xf0\x9f\x8c\xb2" * MAX_CHARS + b"x", "20,000 characters"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "plan.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSettings) as refused:
        open_prompts({"plan": path})
    assert said in refused.value.message
    assert "MEMFOREST_PROMPTS__PLAN" in refused.value.message
