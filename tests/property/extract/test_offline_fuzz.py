"""Whatever is said, the offline extractor answers, the same way each time, within its schema."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import ExtractionAnswer
from memforest_core.ingest.extract.offline.proposing import propose

WORDINGS = """I|I'm|I've|my|we|our|me|live in|moved from|to|Boston|Denver,|and|but|not|never|if
|might|work at|Alice|told me|she|adopted a dog|named Rex|yesterday|in 2021|30 years old|"|“|”|.|!
|?|…|’s|Actually,|Hi Bob,|thanks|project|is|$1,500|的猫|。|é|of|the|favourite|allergic to|remember
|sounds good|I'll try that|switched from|to iPhone|not Boston|Ünal|МОСКВА|,|;|—|(|)|'|\n|\x00"""
ITEMS = st.sampled_from([*WORDINGS.split("|"), "\ud800", "e\u0301"])
SAID = st.lists(ITEMS, max_size=40).map(" ".join)
ANYTHING = st.text(max_size=300) | st.text(st.characters(), max_size=60)
TEXTS = SAID | ANYTHING | SAID.map(lambda text: text * 30)
SPEAKERS = st.sampled_from(["Bob", "assistant", "Ünal O’Neil", "I", "x" * 500, " ", "\ud800"]) | st.text(
    min_size=1, max_size=20
)
LINES = st.tuples(st.sampled_from(Role), SPEAKERS, TEXTS)


def turns_of(lines: list[tuple[Role, str, str]], first: int) -> tuple[WindowTurn, ...]:
    return tuple(
        WindowTurn(
            number=first + at,
            cell=0 if first < 1 else 1 + at // 2,
            ordinal=at,
            role=role,
            speaker=speaker,
            text=text,
            occurred_at=datetime(2024, 3, 4, tzinfo=UTC),
        )
        for at, (role, speaker, text) in enumerate(lines)
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    context = draw(st.lists(LINES, max_size=2))
    lines = draw(st.lists(LINES, min_size=1, max_size=6))
    return Window(
        owner="Bob",
        time_zone="UTC",
        context=turns_of(context, 1 - len(context)),
        turns=turns_of(lines, 1),
        cells=(len(lines) + 1) // 2,
    )


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(windows())
def test_an_answer_is_valid_repeatable_and_quotes_what_was_said(window: Window) -> None:
    answer = propose(window)

    assert answer == propose(window)
    assert ExtractionAnswer.model_validate_json(answer.model_dump_json()) == answer
    spoken = {turn.number: turn for turn in window.turns}
    for item in answer.items:
        assert len(item.turns) == 1
        assert item.quote in spoken[item.turns[0]].text
        assert item.text.strip()
    assert {summary.cell for summary in answer.summaries} == {turn.cell for turn in window.turns}
    assert all(len(summary.text) <= 240 for summary in answer.summaries)
