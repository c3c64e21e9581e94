"""Which states the rules read of chat, and of which they read none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import Item
from memforest_core.ingest.extract.offline.proposing import propose

SAID_AT = datetime(2025, 3, 3, 10, tzinfo=UTC)


def items(*turns: str, context: int = 0, speakers: tuple[str, ...] = ()) -> list[Item]:
    """The items of a window of one turn a speaker; the first ``context`` turns were extracted before."""
    said = [
        WindowTurn(
            number=number + 1 - context,
            cell=0 if number < context else number + 1,
            ordinal=number,
            role=Role.USER,
            speaker=speakers[number] if speakers else "Mia",
            text=text,
            occurred_at=SAID_AT,
        )
        for number, text in enumerate(turns)
    ]
    window = Window("Mia", "UTC", tuple(said[:context]), tuple(said[context:]), len(turns) - context)
    return propose(window).items


def states(*turns: str, **window: object) -> list[tuple[str, str, str]]:
    found = items(*turns, **window)  # type: ignore[arg-type]
    return [(item.subject, item.attribute, item.value) for item in found if item.attribute]


@pytest.mark.parametrize(
    ("said", "attribute", "values"),
    [
        ("i live in a tiny flat near Lucerne", "residence", ["near Lucerne"]),
        ("ive moved back to cork btw", "residence", ["cork"]),
        ("born and raised in aarhus", "hometown", ["aarhus"]),
        ("I come from Oaxaca, where everybody dances", "hometown", ["Oaxaca"]),
        ("florist here, ask me anything", "job", ["florist"]),
        ("i work part-time at a bakery", "job", ["bakery"]),
        ("been unemployed since may... im unemployed", "job", ["unemployed"]),
        ("dont ask, i weigh 91 kilos", "weight", ["91 kilos"]),
        ("57yo and still dancing", "age", ["57yo"]),
        ("im allergic to cashews and cats", "allergy", ["cashews", "cats"]),
        ("we've got two goats and a donkey", "pet", ["goats", "donkey"]),
        ("my dog Bilbo is snoring", "pet", ["dog Bilbo"]),
        ("i drive an old skoda", "possession", ["old skoda"]),
        ("i love ramen, crosswords", "preference", ["ramen", "crosswords"]),
        ("happily married here", "relationship", ["married"]),
        ("my name's Mia Sandoval", "name", ["Mia Sandoval"]),
    ],
)
def test_what_is_plainly_said_of_oneself_is_a_state(said: str, attribute: str, values: list[str]) -> None:
    assert [value.removesuffix("yo") for _, _, value in states(said)] == [value.removesuffix("yo") for value in values]
    assert {(subject, name) for subject, name, _ in states(said)} == {("Mia", attribute)}


@pytest.mark.parametrize(
    "said",
    [
        "the stove is from the iron age",
        "that rota worked for everyone",
        "he eats like a winner",
        "i almost became a nurse",
        "imagine i live in a lighthouse",
        "if i lived in Kyoto i'd walk more",
        "everyone thinks i live in Graz",
        "not sure i'm allergic to bees",
        "i live in Ghent, kidding",
        "my name is not Otto",
        "she works at Lidl",
        "i like how you put it",
        "i feel like a teacher",
        "i'm 5 km from the shop",
        "we moved to Kubernetes",
        "i moved to tears of joy",
        "i'm from the future",
        "do i live in Oslo?",
        "i'd love a dog",
        "married to my job",
    ],
)
def test_what_is_not_said_in_earnest_of_oneself_is_no_state(said: str) -> None:
    assert [state for state in states(said) if state[0] == "Mia"] == []


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        ("my ex-husband lives in Turku", "Mia's ex-husband"),
        ("my best mate's mum lives in turku", "Mia's best mate's mum"),
        ("my little brother Jon lives in Turku", "Jon"),
        ("my mother-in-law lives in turku", "Mia's mother-in-law"),
    ],
)
def test_somebody_elses_state_is_theirs(said: str, subject: str) -> None:
    assert [each[0] for each in states(said) if each[1] == "residence"] == [subject]


@pytest.mark.parametrize(
    "said",
    [
        "one thing you should remember if i ever ask for a menu: i'm allergic to walnuts",
        "If I ask for a menu, remember that I'm allergic to walnuts.",
        "in case you cook for me: don't forget i'm allergic to walnuts",
    ],
)
def test_a_condition_of_a_request_to_remember_is_none_of_what_is_to_be_remembered(said: str) -> None:
    assert states(said) == [("Mia", "allergy", "walnuts")]


@pytest.mark.parametrize(
    "said",
    [
        "imagine i'm allergic to walnuts",
        "do you remember if i'm allergic to walnuts",
        "he told me to remember that i'm allergic to walnuts",
        "they never promoted me to manager",
        "if they hired me as a cook i'd move",
        "he says Norvik promoted me to manager",
        "i told the clerk that i'm a nurse",
    ],
)
def test_what_is_supposed_or_reported_is_no_state_in_a_request_or_of_an_employer_either(said: str) -> None:
    assert states(said) == []


@pytest.mark.parametrize(
    ("said", "value", "change"),
    [
        ("last week Norvik promoted me to head of customer support", "head of customer support", Change.SWITCH),
        ("I told the agency no, because Norvik promoted me to senior editor", "senior editor", Change.SWITCH),
        ("the county hospital gave me a job as a midwife", "midwife", Change.SWITCH),
        ("a bakery hired me as a cashier", "cashier", Change.SWITCH),
        ("my title is director of marketing", "director of marketing", Change.NONE),
        ("I handed in my notice at Norvik the very next day", "Norvik", Change.STOP),
    ],
)
def test_what_an_employer_does_is_a_state_of_the_job(said: str, value: str, change: Change) -> None:
    (item,) = items(said)

    assert (item.subject, item.attribute, item.value, item.change) == ("Mia", "job", value, change)


def test_what_is_given_up_is_denied() -> None:
    (item,) = items("I've given up coffee.")

    assert (item.attribute, item.value, item.polarity) == ("diet", "coffee", Polarity.NEGATIVE)


def test_a_relative_and_a_name_are_facts_of_their_own_without_the_date_of_the_sentence() -> None:
    sister, visit = items("My sister Ines is visiting since Monday.")
    (name,) = items("I'm Mia.")

    assert (sister.text, sister.attribute, sister.value, sister.when) == ("Ines is Mia's sister.", "sister", "Ines", "")
    assert (visit.attribute, visit.when) == ("", "since Monday")
    assert (name.text, name.attribute, name.value) == ("Mia's name is Mia.", "name", "Mia")


def test_a_wish_to_be_joking_takes_nothing_back() -> None:
    assert states("I live in Bern.", "I wish I were joking.") == [("Mia", "residence", "Bern")]


def test_a_name_at_the_head_of_a_clause_is_its_subject() -> None:
    assert states("Noor lives in Ghent") == [("Noor", "residence", "Ghent")]
    assert states("noor lives in ghent", "hi", speakers=("Mia", "Noor")) == []
    assert states("Everybody lives in Ghent", "Seeing lives in Ghent") == []


@pytest.mark.parametrize(
    ("said", "attribute", "value"),
    [
        ("i'm not vegan", "diet", "vegan"),
        ("i dont eat shellfish", "diet", "shellfish"),
        ("i hate olives", "preference", "olives"),
        ("im not allergic to eggs", "allergy", "eggs"),
        ("i don't smoke", "activity", "smoking"),
        ("we don't have a car", "possession", "car"),
    ],
)
def test_a_denial_is_a_state_of_its_own(said: str, attribute: str, value: str) -> None:
    (item,) = items(said)

    assert (item.attribute, item.value, item.polarity) == (attribute, value, Polarity.NEGATIVE)


@pytest.mark.parametrize(
    ("turns", "attribute", "value", "previous"),
    [
        (("I live in Bern.", "Oops, I meant Basel, not Bern."), "residence", "Basel", "Bern"),
        (("I work at Acme.", "sorry, meant Hooli not Acme"), "job", "Hooli", "Acme"),
        (("i weigh 66 kg", "*68 kg"), "weight", "68 kg", "66 kg"),
        (("my budget is 12k", "make that 15k"), "budget", "15k", "12k"),
        (("my door code is 4711", "the new door code is 0815A"), "door code", "0815A", ""),
        (("im a nurse", "well, nurse assistant to be exact"), "job", "nurse assistant", "nurse"),
    ],
)
@pytest.mark.parametrize("context", [0, 1])
def test_a_correction_means_the_latest_value_of_its_kind(
    turns: tuple[str, ...], attribute: str, value: str, previous: str, context: int
) -> None:
    item = items(*turns, context=context)[-1]

    assert (item.subject, item.attribute, item.value, item.previous_value) == ("Mia", attribute, value, previous)
    assert item.change is (Change.CORRECT if previous else Change.NONE)


def test_a_correction_that_can_mean_nothing_before_it_corrects_nothing() -> None:
    assert states("I live in Bern.", "*68 kg") == [("Mia", "residence", "Bern")]
    assert states("Sorry, I meant Basel, not Bern.") == []


@pytest.mark.parametrize(
    ("turns", "attribute"),
    [
        (("i have a cat", "jk, no cat"), "pet"),
        (("we're moving to Leuven on friday", "the move is off"), "residence"),
        (("we have a boat", "sold it to a man from Liège"), "possession"),
        (("my cat Bruno is 17", "we had to put Bruno to sleep"), "pet"),
    ],
)
def test_what_is_taken_back_or_gone_is_ended(turns: tuple[str, ...], attribute: str) -> None:
    last = items(*turns)[-1]

    assert last.attribute == attribute
    assert last.change is Change.STOP or (last.change, last.polarity) == (Change.CORRECT, Polarity.NEGATIVE)


@pytest.mark.parametrize(
    "said", ["I start at Norvik on 9 March", "we're moving to Lund in June", "im getting a dog on saturday"]
)
def test_what_will_be_is_a_plan(said: str) -> None:
    (item,) = items(said)

    assert item.attribute
    assert item.modality is Modality.PLANNED


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("I almost moved to Denver.", "Mia almost moved to Denver."),
        ("I skateboard to work.", "Mia skateboard to work."),
        ("Grandpa was like my back hurts", "Mia said: Grandpa was like my back hurts"),
        ("I sang 'my way' loudly at the wedding", "Mia said: I sang 'my way' loudly at the wedding"),
    ],
)
def test_a_sentence_is_rewritten_only_where_that_is_certain(said: str, text: str) -> None:
    assert [item.text for item in items(said)] == [text]


def test_a_loop_of_words_is_no_fact() -> None:
    assert items("I love you and " * 60) == []
