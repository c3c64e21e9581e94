"""From an untrusted answer to candidates: sources that exist, quotes that occur, dates that code resolved."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.cells import Window
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity
from memforest_core.domain.times import UNKNOWN_TIME, Precision
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.answer_checks import MAX_VERBATIM_CHARS, sourced, to_candidates, verbatim
from memforest_core.ingest.extract.extraction_prompt import ExtractionAnswer
from memforest_core.models.answer_reading import described
from tests.harness.builders import NOON, cells_of, window, window_turn

TWO_CELLS = window(
    window_turn(1, "I moved to Davis last week.", cell=1),
    window_turn(2, "Nice! How is it?", cell=1, role=Role.ASSISTANT, speaker="assistant"),
    window_turn(3, "Hot. I adopted a dog.", cell=2),
)


def item(text: str = "Bob moved to Davis.", turns: list[int] | None = None, **fields: Any) -> dict[str, Any]:
    return {"text": text, "turns": turns or [1], **fields}


def read(*items: dict[str, Any], shown: Window = TWO_CELLS) -> list[Candidate]:
    answer, _ = sourced(ExtractionAnswer.model_validate({"items": items}), shown)
    return to_candidates(answer, shown, cells_of(shown))


def test_an_item_becomes_a_candidate_with_all_it_says() -> None:
    [found] = read(
        item(
            quote="moved to Davis",
            speaker="Bob",
            subject="Bob",
            attribute="Residence",
            value="Davis",
            previous_value="Boston",
            change="switch",
            polarity="negative",
            modality="planned",
            entities=["Davis", "Davis", "UC Davis"],
            scene="Home/Move",
            origin="assistant",
        )
    )

    said = found.statement
    assert (found.cell_id, found.item, found.turn_ordinals) == (cells_of(TWO_CELLS)[1], 0, (10,))
    assert found.quote == "moved to Davis"
    assert said.text == "Bob moved to Davis."
    assert (said.speaker, said.subject) == ("Bob", "Bob")
    assert (said.attribute, said.value, said.previous_value) == ("residence", "Davis", "Boston")
    assert (said.change, said.polarity, said.modality) == (Change.SWITCH, Polarity.NEGATIVE, Modality.PLANNED)
    assert said.entities == ("Davis", "UC Davis")
    assert (said.scene, said.domain) == ("home/move", "home")
    assert said.origin is Origin.ASSISTANT
    assert said.mentioned_at == NOON
    assert not said.verbatim


def test_items_are_numbered_within_the_cell_of_their_first_turn() -> None:
    found = read(item(), item(turns=[3]), item(turns=[3, 1]), item(turns=[3]))

    cells = cells_of(TWO_CELLS)
    assert [(each.cell_id, each.item) for each in found] == [(cells[1], 0), (cells[2], 0), (cells[1], 1), (cells[2], 1)]
    assert found[2].turn_ordinals == (10, 12)


def test_a_quote_narrows_the_sources_to_the_turns_that_hold_it() -> None:
    [found] = read(item(turns=[1, 2, 3], quote="adopted  A dog"))

    assert found.turn_ordinals == (12,)
    assert found.cell_id == cells_of(TWO_CELLS)[2]


@pytest.mark.parametrize("quote", ["", "  ", "\x00", "I've moved over to Davis last week"])
def test_without_a_quote_or_with_a_reworded_one_the_named_turns_stay(quote: str) -> None:
    [found] = read(item(turns=[2, 1], quote=quote))

    assert (found.quote, found.turn_ordinals) == ("", (10, 11))


def test_an_item_whose_quote_nobody_said_is_left_out() -> None:
    """Given three items, when the second quotes what occurs nowhere, then the others stay and are counted on."""
    found = read(item(quote="moved to Davis"), item("Bob lives in Rome.", quote="I live in Rome"), item())

    assert [(each.item, each.statement.text) for each in found] == [
        (0, "Bob moved to Davis."),
        (1, "Bob moved to Davis."),
    ]


@pytest.mark.parametrize(
    ("given", "speaker"),
    [("bob ", "Bob"), ("assistant", "assistant"), ("Ann", "Ann"), ("Robert", "Bob"), ("the user", "Bob"), ("", "Bob")],
)
def test_a_speaker_is_somebody_of_the_window_or_the_turns_own(given: str, speaker: str) -> None:
    shown = window(*TWO_CELLS.turns, context=[window_turn(0, "Hello.", cell=0, speaker="Ann")])

    [found] = read(item(speaker=given), shown=shown)

    assert found.statement.speaker == speaker


def test_a_quote_is_found_however_its_accents_are_composed() -> None:
    shown = window(window_turn(1, unicodedata.normalize("NFD", "My friend Zoë called.")), window_turn(2, "Who?"))

    [found] = read(item(turns=[1, 2], quote="friend Zoë"), shown=shown)

    assert (found.quote, found.turn_ordinals) == ("friend Zoë", (10,))


@pytest.mark.parametrize("turns", [[0], [4], [-1], [98, 99]])
def test_an_item_of_turns_that_are_not_there_is_left_out_and_counted(turns: list[int]) -> None:
    """Given a window of turns 1 to 3 with a context turn 0, then only 1 to 3 can be sources."""
    shown = window(*TWO_CELLS.turns, context=[window_turn(0, "Hello.", cell=0)])
    answer = ExtractionAnswer.model_validate({"items": [item(), item(turns=turns), item(turns=[2, *turns])]})

    own, faults = sourced(answer, shown)

    assert [each.turns for each in own.items] == [[1], [2]]
    assert described(faults) == "1 item named no turn to extract from"


def test_an_item_without_turns_is_of_the_one_that_it_quotes_or_of_the_only_one() -> None:
    quoting = {"text": "Bob adopted a dog.", "turns": [], "quote": "I adopted a dog"}
    bare = {"text": "Bob adopted a dog.", "turns": []}
    alone = window(window_turn(7, "I adopted a dog."))

    own, faults = sourced(ExtractionAnswer.model_validate({"items": [quoting, bare]}), TWO_CELLS)
    single, _ = sourced(ExtractionAnswer.model_validate({"items": [bare]}), alone)

    assert ([each.turns for each in own.items], faults.total()) == ([[3]], 1)
    assert [each.turns for each in single.items] == [[7]]


@pytest.mark.parametrize("subject", ["user", "The User", "I", "me", "speaker"])
def test_a_subject_called_user_is_the_speaker(subject: str) -> None:
    assert read(item(subject=subject))[0].statement.subject == "Bob"


def test_a_date_phrase_is_resolved_against_the_turn_that_said_it_in_the_sessions_zone() -> None:
    """Given a turn at 02:00 UTC on the 9th, which is the evening of the 8th in New York."""
    zone = ZoneInfo("America/New_York")
    late = datetime(2023, 5, 9, 2, tzinfo=UTC).astimezone(zone)
    shown = window(window_turn(1, "I saw Ann yesterday.", at=late), zone=zone.key)

    [found] = read(item(when="yesterday"), shown=shown)

    assert found.statement.time.start == datetime(2023, 5, 7, tzinfo=zone)
    assert found.statement.time.precision is Precision.DAY
    assert found.statement.mentioned_at == late


@pytest.mark.parametrize("when", ["", " ", "\x00", "the day pigs fly", "in the year 99999", "30 February 2023"])
def test_a_date_that_cannot_be_is_unknown(when: str) -> None:
    assert read(item(when=when))[0].statement.time == UNKNOWN_TIME


def test_nul_and_lone_surrogates_are_removed_everywhere() -> None:
    dirty = "a\x00b"

    [found] = read(
        item(
            dirty,
            speaker=dirty,
            subject=dirty,
            attribute=dirty,
            value=dirty,
            previous_value=dirty,
            entities=[dirty, "\x00"],
            scene=dirty,
            quote="moved\x00 to Davis",
        )
    )

    said = found.statement
    texts = (said.text, said.subject, said.attribute, said.value, said.previous_value, said.scene)
    assert set(texts) == {"ab"}
    assert said.entities == ("ab",)
    assert found.quote == "moved to Davis"


def test_verbatim_stores_every_turn_and_says_so() -> None:
    found = verbatim(TWO_CELLS, cells_of(TWO_CELLS))

    cells = cells_of(TWO_CELLS)
    assert [(each.cell_id, each.item, each.turn_ordinals) for each in found] == [
        (cells[1], 0, (10,)),
        (cells[1], 1, (11,)),
        (cells[2], 0, (12,)),
    ]
    assert [each.statement.text for each in found] == [
        "Bob: I moved to Davis last week.",
        "assistant: Nice! How is it?",
        "Bob: Hot. I adopted a dog.",
    ]
    assert [each.statement.origin for each in found] == [Origin.USER, Origin.ASSISTANT, Origin.USER]
    assert all(each.statement.verbatim for each in found)
    assert all(each.statement.time == UNKNOWN_TIME for each in found)


def test_verbatim_leaves_instructions_out_and_is_bounded() -> None:
    shown = window(window_turn(1, "Be kind.", role=Role.SYSTEM), window_turn(2, "x" * 8_000))

    [found] = verbatim(shown, cells_of(shown))

    assert found.turn_ordinals == (11,)
    assert len(found.statement.text) == MAX_VERBATIM_CHARS


@pytest.mark.parametrize(
    ("text", "when", "day"),
    [
        ("The rent is due on the 3rd.", "on the 3rd", "2023-06-03"),
        ("I moved in on the 3rd.", "on the 3rd", "2023-05-03"),
        ("I start at Norvik on 9 March.", "on 9 March", "2024-03-09"),
        ("I started at Norvik on 9 July.", "on 9 July", "2022-07-09"),
        ("I'm in Berlin from June.", "from June", "2023-06-01"),
        ("I lived in Berlin from June.", "from June", "2022-06-01"),
        ("My exam is on Friday.", "on Friday", "2023-05-12"),
        ("My exam was on Friday.", "on Friday", "2023-05-05"),
    ],
)
def test_an_open_date_is_read_on_the_side_that_its_verb_says(text: str, when: str, day: str) -> None:
    [found] = read(item(text, [1], quote=text, when=when), shown=window(window_turn(1, text)))

    assert found.statement.time.start is not None
    assert found.statement.time.start.date().isoformat() == day
