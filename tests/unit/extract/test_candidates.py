"""From an untrusted answer to candidates: items of this window, sources that exist, quotes that occur, resolved dates."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity
from memforest_core.domain.times import UNKNOWN_TIME, Precision
from memforest_core.domain.turns import Role
from memforest_core.errors import ContentFault
from memforest_core.ingest.extract.answer_checks import (
    MAX_VERBATIM_CHARS,
    contradicted,
    grounded,
    sourced,
    to_candidates,
    verbatim,
)
from memforest_core.ingest.extract.extraction_prompt import CellSummary, ExtractionAnswer, Item
from memforest_core.models.answer_reading import described
from tests.harness.builders import NOON, cells_of, window, window_turn
from tests.unit.extract.test_offline import cases

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
    state = {"attribute": "Residence", "value": "Davis", "previous_value": "Boston", "change": "switch"}
    stance = {"polarity": "negative", "modality": "planned", "origin": "assistant", "scene": "Home/Move"}
    of = {"quote": "moved to Davis", "speaker": "Bob", "subject": "Bob", "entities": ["Davis", "Davis", "UC Davis"]}
    [found] = read(item(**of, **state, **stance))

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

    fields = ("speaker", "subject", "attribute", "value", "previous_value", "scene")
    quote, entities = "moved\x00 to Davis", [dirty, "\x00"]
    [found] = read(item(dirty, quote=quote, entities=entities, **dict.fromkeys(fields, dirty)))

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


WINDOWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data/foreign_answers.json").read_text(encoding="utf-8")
)
ANCHOR = Item(text=".", turns=[1])
"""An item without words is of any window: with it a strange one is no majority."""


def window_of(case: dict[str, Any]) -> Window:
    at = datetime(2023, 5, 8, 12, tzinfo=UTC)
    turns = tuple(
        WindowTurn(number, 1, number - 1, Role.USER, speaker, text, at)
        for number, (speaker, text) in enumerate(case["turns"], 1)
    )
    return Window(case["turns"][0][0], "UTC", (), turns, 1)


def item_of(case: str | dict[str, str]) -> Item:
    return Item.model_validate({"turns": [1], **({"text": case} if isinstance(case, str) else case)})


def stored(window: Window, item: Item) -> bool:
    return item in grounded(ExtractionAnswer(items=[item, ANCHOR]), window)[0].items


CASES = [(case, kind, item) for case in WINDOWS for kind in ("honest", "foreign") for item in case[kind]]


@pytest.mark.parametrize(("case", "kind", "item"), CASES, ids=[str(each[2]) for each in CASES])
def test_an_honest_paraphrase_stays_and_an_item_of_another_window_goes(
    case: dict[str, Any], kind: str, item: str | dict[str, str]
) -> None:
    assert stored(window_of(case), item_of(item)) is (kind == "honest")


def test_of_one_windows_honest_items_nearly_none_is_grounded_in_another() -> None:
    pairs = [(window, other) for window in WINDOWS for other in WINDOWS if other is not window]
    passed = [item for window, other in pairs for item in other["honest"] if stored(window_of(window), item_of(item))]

    assert passed == []


def test_most_of_an_answer_being_foreign_is_a_fault_that_names_the_remedy() -> None:
    answer = ExtractionAnswer(items=[item_of(text) for text in WINDOWS[6]["honest"]])

    with pytest.raises(ContentFault, match=r'7 of 7 items are not about the turns to extract from.*"quote"'):
        grounded(answer, window_of(WINDOWS[0]))


def test_a_summary_of_another_window_goes_and_is_counted() -> None:
    own = CellSummary(cell=1, text="Melanie tells about her new puppy Biscuit, who chewed her sneakers.")
    other = CellSummary(cell=1, text="Tim tells Priya about his promotion at Northwind; she starts at Contoso in July.")

    answer, left_out = grounded(ExtractionAnswer(items=[], summaries=[own, other]), window_of(WINDOWS[0]))

    assert (answer.summaries, left_out.total()) == ([own], 1)


def test_a_similar_sentence_with_another_identifier_or_another_name_as_value_is_of_another_window() -> None:
    case = {"turns": [["Bob", "I bought mwa4w5 for 8 dollars in Delhi."]]}

    assert stored(window_of(case), item_of({"text": "Bob bought mwa4w5 for 8 dollars in Delhi.", "value": "mwa4w5"}))
    assert not stored(window_of(case), item_of("Bob bought mwa4w4 for 8 dollars in Delhi."))
    assert not stored(window_of(case), item_of({"text": "Bob bought it for 8 dollars in Cairo.", "value": "Cairo"}))


CONTRADICTED = """
    I applied to Norvik for a job -> job=Norvik / I have an interview at Norvik on Monday -> job=Norvik
    I almost moved to Denver last year -> residence=Denver / I'd love to live in Rome -> residence=Rome
    maybe I'll get a dog -> pet=dog / if I lived in Oslo I would ski -> residence=Oslo
    I don't work at Acme -> job=Acme / I never lived in Lima -> residence=Lima
    My sister lives in Tampa -> residence=Tampa / my landlord is a dentist -> job=dentist
    my best friend's dad lives in Hull -> residence=Hull / I live in Ghent, just kidding -> residence=Ghent
    I feel like a teenager -> age=teenager / I'm in heaven -> residence=heaven / I moved -> residence=true
    Do I live in Oslo? -> residence=Oslo / Everyone thinks I live in Bern -> residence=Bern / he has a dog -> pet=dog
    the landlord lives in Rome -> residence=Rome / I'm not vegan -> diet=vegan
    I'm not allergic to nuts -> allergy=nuts / I used to be a teacher -> job=teacher
    I sold my bike -> possession=bike / my mom said, I live in Rome -> residence=Rome
    we are looking at a flat in Turku -> residence=Turku
"""
STATED = """
    I live in Boston -> residence=Boston / im a nurse now -> job=nurse
    I might be late, I live in Hull -> residence=Hull
    my sister thinks I'm crazy but I moved to Oslo -> residence=Oslo / I work at Acme, but I want to move -> job=Acme
    I start at Norvik on 9 March -> job=Norvik (planned) / I applied to Norvik -> job=Norvik (planned)
    I don't live in Oslo anymore -> residence=Oslo (stop) / I don't eat pork -> diet=no pork
    I'm not allergic to nuts -> allergy=nuts (negative) / Ich wohne in Berlin -> residence=Berlin
    I used to live in Rome -> residence=Rome (stop)
"""
STANCES = {"planned": "modality", "stop": "change", "negative": "polarity"}


def is_contradicted(quote: str, state: str, subject: str = "Kim") -> bool:
    """``state``: "attribute=value", and in brackets what of a stance is not as usual."""
    attribute, _, value = state.partition("=")
    value, _, stance = value.removesuffix(")").partition(" (")
    item = {"text": "Kim says so.", "turns": [1], "attribute": attribute, "value": value, "subject": subject}
    return contradicted(Item.model_validate(item | ({STANCES[stance]: stance} if stance else {})), quote, "Kim")


@pytest.mark.parametrize(("quote", "state"), cases(CONTRADICTED))
def test_what_a_quote_contradicts_makes_no_state(quote: str, state: str) -> None:
    assert is_contradicted(quote, state)


@pytest.mark.parametrize(("quote", "state"), cases(STATED))
def test_a_state_that_its_quote_says_or_leaves_open_is_accepted(quote: str, state: str) -> None:
    assert not is_contradicted(quote, state)


def test_nothing_contradicts_without_a_quote_or_of_somebody_else() -> None:
    assert not is_contradicted("", "residence=Rome")
    assert not is_contradicted("I said something", "=")
    assert not is_contradicted("My sister lives in Tampa", "residence=Tampa", "Kim's sister")
