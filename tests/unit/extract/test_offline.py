"""What the offline extractor takes from a conversation, and how it says it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Change, Modality, Origin, Polarity
from memforest_core.domain.pasted import pasted
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import Item
from memforest_core.ingest.extract.offline.english_text import names_in
from memforest_core.ingest.extract.offline.person import to_third_person
from memforest_core.ingest.extract.offline.proposing import propose

SAID_AT = datetime(2024, 3, 4, 9, 30, tzinfo=UTC)
Line = tuple[Role, str, str]


def turns_of(lines: list[Line], first: int, cell: int | None) -> tuple[WindowTurn, ...]:
    return tuple(
        WindowTurn(
            number=first + at,
            cell=1 + at // 2 if cell is None else cell,
            ordinal=at,
            role=role,
            speaker=speaker,
            text=text,
            occurred_at=SAID_AT,
        )
        for at, (role, speaker, text) in enumerate(lines)
    )


def window(*lines: Line, context: tuple[Line, ...] = ()) -> Window:
    return Window(
        owner="Bob",
        time_zone="UTC",
        context=turns_of(list(context), 1 - len(context), 0),
        turns=turns_of(list(lines), 1, None),
        cells=(len(lines) + 1) // 2,
    )


def bob(text: str) -> Line:
    return Role.USER, "Bob", text


def assistant(text: str) -> Line:
    return Role.ASSISTANT, "assistant", text


def items(text: str) -> list[Item]:
    return propose(window(bob(text))).items


def only(text: str) -> Item:
    (item,) = items(text)
    return item


@pytest.mark.parametrize(
    "said, reported",
    [
        ("I live in Boston.", "Bob lives in Boston."),
        ("I'm tired of the rain.", "Bob is tired of the rain."),
        ("I've seen Rome.", "Bob has seen Rome."),
        ("I don't drink.", "Bob doesn't drink."),
        ("I haven't slept.", "Bob hasn't slept."),
        ("I'd like tea.", "Bob would like tea."),
        ("I'd been there before.", "Bob had been there before."),
        ("My dog barks.", "Bob's dog barks."),
        ("The red one is mine.", "The red one is Bob's."),
        ("Ann called me.", "Ann called Bob."),
        ("I really enjoy chess.", "Bob really enjoys chess."),
        ("I study law.", "Bob studies law."),
        ("I moved and then I rested.", "Bob moved and then Bob rested."),
        ("I no longer smoke.", "Bob no longer smokes."),
        ("I live in Rome and work at Fiat.", "Bob lives in Rome and works at Fiat."),
        ("My wife and I live in Oslo.", "Bob's wife and Bob live in Oslo."),
        ("We adopted a cat.", "Bob and others adopted a cat."),
        ("We're in Lima.", "Bob and others are in Lima."),
        ('Ann said "I love my job" to me.', 'Ann said "I love my job" to Bob.'),
        ("He read about World War I today.", "He read about World War I today."),
    ],
)
def test_first_person_becomes_the_speaker(said: str, reported: str) -> None:
    assert to_third_person(said, "Bob") == reported


@pytest.mark.parametrize(
    "text, attribute, value, change",
    [
        ("I live in Boston.", "residence", "Boston", Change.NONE),
        ("I moved to Denver last month.", "residence", "Denver", Change.SWITCH),
        ("I used to live in Rome.", "residence", "Rome", Change.STOP),
        ("I grew up in Ohio.", "hometown", "Ohio", Change.NONE),
        ("I work at Google.", "job", "Google", Change.NONE),
        ("I'm a software engineer.", "job", "software engineer", Change.NONE),
        ("I started a new job at Stripe.", "job", "Stripe", Change.START),
        ("I got promoted to senior manager on Friday.", "job", "senior manager", Change.SWITCH),
        ("I quit my job at Acme.", "job", "Acme", Change.STOP),
        ("I don't work at Google anymore.", "job", "Google", Change.STOP),
        ("I turned 30 yesterday.", "age", "30", Change.NONE),
        ("I adopted a dog named Biscuit.", "pet", "dog named Biscuit", Change.START),
        ("My cat is named Milo.", "pet name", "Milo", Change.NONE),
        ("I bought a car.", "possession", "car", Change.START),
        ("I sold my motorcycle.", "possession", "motorcycle", Change.STOP),
        ("I got engaged to Sarah!", "relationship", "engaged to Sarah", Change.NONE),
        ("My sister is called Maya.", "sister", "Maya", Change.NONE),
        ("My name is Bob Stone.", "name", "Bob Stone", Change.NONE),
        ("My rent is $1,500.", "rent", "$1,500", Change.NONE),
        ("I love hiking.", "preference", "hiking", Change.NONE),
        ("My favourite colour is blue.", "favorite colour", "blue", Change.NONE),
        ("I became a vegetarian.", "diet", "vegetarian", Change.NONE),
        ("I quit smoking in March.", "activity", "smoking", Change.STOP),
        ("I started learning Spanish.", "activity", "learning Spanish", Change.START),
        ("I moved into my new flat in Bergen this morning.", "residence", "Bergen", Change.SWITCH),
        ("I moved out of Ghent.", "residence", "Ghent", Change.STOP),
        ("I no longer live there.", "residence", "", Change.STOP),
        ("I no longer work there.", "job", "", Change.STOP),
        ("I quit.", "job", "", Change.STOP),
        ("I quit Initech in May.", "job", "Initech", Change.STOP),
        ("I got laid off last Friday.", "job", "", Change.STOP),
        ("I joined Hooli as a designer two weeks ago.", "job", "Hooli", Change.START),
        ("Our dog Nero ran away.", "pet", "dog Nero", Change.STOP),
        ("We gave our cat Misty away.", "pet", "cat Misty", Change.STOP),
        ("I lost my dog Rex in April.", "pet", "dog Rex", Change.STOP),
        ("My bike was stolen.", "possession", "bike", Change.STOP),
        ("I started dating Kim.", "relationship", "dating Kim", Change.START),
        ("Ben and I broke up.", "relationship", "", Change.STOP),
    ],
)
def test_common_statements_set_an_attribute(text: str, attribute: str, value: str, change: Change) -> None:
    item = only(text)

    assert (item.attribute, item.value, item.change) == (attribute, value, change)
    assert item.subject == "Bob"


@pytest.mark.parametrize(
    "text, modality",
    [
        ("I moved to Denver.", Modality.ASSERTED),
        ("I'm moving to Denver.", Modality.PLANNED),
        ("I start at Globex on Monday.", Modality.PLANNED),
        ("I plan to visit Japan.", Modality.PLANNED),
        ("I'll start therapy on Monday.", Modality.PLANNED),
        ("I hope to become a chef.", Modality.PLANNED),
        ("I'd like to learn the piano.", Modality.PLANNED),
        ("Alice told me she quit her job.", Modality.HEARSAY),
        ("Apparently the office is closing.", Modality.HEARSAY),
        ("I might visit Japan.", Modality.HYPOTHETICAL),
        ("Maybe I will sell my car.", Modality.HYPOTHETICAL),
        ("If I get a raise, I'll move to Denver.", Modality.HYPOTHETICAL),
        ("I live in Boston and I'm going to run a marathon.", Modality.ASSERTED),
    ],
)
def test_plans_hearsay_and_guesses_are_distinguished(text: str, modality: Modality) -> None:
    assert only(text).modality is modality


@pytest.mark.parametrize(
    "text, polarity",
    [
        ("I don't eat meat.", Polarity.NEGATIVE),
        ("I never liked coffee.", Polarity.NEGATIVE),
        ("I hate mushrooms.", Polarity.NEGATIVE),
        ("I can't wait to visit Kyoto!", Polarity.POSITIVE),
        ("I live in Denver, not Boston.", Polarity.POSITIVE),
    ],
)
def test_a_denial_is_negative_in_its_own_clause(text: str, polarity: Polarity) -> None:
    assert only(text).polarity is polarity


@pytest.mark.parametrize(
    "text",
    [
        "Hi!",
        "Good morning, Alice!",
        "Thank you, that helps a lot!",
        "That's great to hear!",
        "You're welcome!",
        "Congratulations!",
        "What's the weather like?",
        "Can you recommend a book?",
        "Please write a poem about rain.",
        "Lucky you!",
        "Sounds like a plan",
        "Tell me about it",
        "ok",
        "👍",
    ],
)
def test_what_carries_nothing_is_skipped(text: str) -> None:
    assert items(text) == []


def test_a_greeting_or_question_does_not_hide_the_statement_next_to_it() -> None:
    greeted = only("Hi Alice, I adopted a dog.")
    requested = only("I just moved to Seattle, do you know any good cafes?")

    assert greeted.text == "Bob adopted a dog."
    assert greeted.entities == []
    assert (requested.attribute, requested.value) == ("residence", "Seattle")
    assert requested.quote == "I just moved to Seattle, do you know any good cafes?"


def test_a_clause_with_when_is_no_question() -> None:
    assert only("When I was a kid I broke my arm.").subject == "Bob"


def test_a_move_names_both_cities_and_its_date() -> None:
    item = only("I moved from Boston to Denver last month.")

    assert (item.value, item.previous_value, item.when) == ("Denver", "Boston", "last month")
    assert item.entities == ["Boston", "Denver"]
    assert item.scene == "home/moving"


def test_two_states_of_one_sentence_become_two_items() -> None:
    home, job = items("I live in Boston and work at Google.")

    assert (home.attribute, home.value) == ("residence", "Boston")
    assert (job.text, job.attribute, job.value) == ("Bob works at Google", "job", "Google")
    assert home.quote == job.quote


def test_a_relative_has_a_state_of_her_own() -> None:
    sister, move = items("My sister Maya moved to Paris in 2021.")

    assert (sister.subject, sister.attribute, sister.value) == ("Bob", "sister", "Maya")
    assert (move.subject, move.attribute, move.value) == ("Maya", "residence", "Paris")


def test_an_unnamed_relative_does_not_set_the_speakers_state() -> None:
    item = only("My brother moved to Denver.")

    assert (item.subject, item.value) == ("Bob's brother", "Denver")
    assert item.text == "Bob's brother moved to Denver."


def test_hearsay_is_about_the_person_it_mentions_and_states_nothing() -> None:
    item = only("Alice told me she quit her job at Acme.")

    assert (item.subject, item.speaker, item.attribute) == ("Alice", "Bob", "")
    assert item.text == "Alice told Bob she quit her job at Acme."


def test_a_correction_names_what_it_takes_back() -> None:
    item = only("Actually, it's Denver, not Boston.")

    assert (item.change, item.previous_value, item.subject) == (Change.CORRECT, "Boston", "Bob")
    assert only("No, I live in Berlin now.").change is Change.CORRECT
    assert only("Sorry, I meant I live in Denver.").change is Change.CORRECT


def test_a_project_has_a_status() -> None:
    item = only("The Orion project is delayed until June.")

    assert (item.subject, item.attribute) == ("Orion project", "status")
    assert item.text == "The Orion project is delayed until June."


def test_what_names_nobody_is_attributed() -> None:
    assert only("The concert in Hyde Park was loud.").text.startswith("Bob said: ")


@pytest.mark.parametrize(
    "text", ["Me gusta la comida y vivo en Madrid.", "我昨天搬到了北京。我有一只猫。", "Я живу в Москве."]
)
def test_other_languages_are_quoted_as_said(text: str) -> None:
    item = only(text)

    assert item.text == f"Bob said: {text}"
    assert (item.quote, item.subject) == (text, "Bob")


def test_advice_counts_only_when_the_user_takes_it_up() -> None:
    advice = assistant("Try the Mediterranean diet with fish twice a week. Do you like fish?")
    ignored = propose(window(bob("Any diet tips?"), advice, bob("I live in Boston.")))
    accepted = propose(window(bob("Any diet tips?"), advice, bob("Sounds good, I'll try that.")))

    assert [item.origin for item in ignored.items] == [Origin.USER]
    (item,) = accepted.items
    assert (item.origin, item.speaker, item.turns) == (Origin.ASSISTANT, "assistant", [2])
    assert item.subject == "Bob"
    assert "Mediterranean diet with fish" in item.text


def test_at_most_four_facts_come_from_the_assistant() -> None:
    steps = " ".join(f"You should walk {n} miles each day." for n in range(1, 9))
    answer = propose(window(assistant(steps), bob("Please remember that.")))

    assert sum(item.origin is Origin.ASSISTANT for item in answer.items) == 4


def test_advice_in_the_context_is_cited_from_the_turn_that_accepts_it() -> None:
    given = assistant("Stretch for ten minutes before each run.")
    (item,) = propose(window(bob("Perfect, I'll do that."), context=(given,))).items

    assert item.turns == [1]
    assert item.quote in "Perfect, I'll do that."
    assert "Stretch for ten minutes" in item.text


def test_system_and_tool_turns_and_context_are_not_extracted() -> None:
    answer = propose(
        window(
            (Role.SYSTEM, "system", "I live in a server."),
            (Role.TOOL, "tool", "I work at Google."),
            context=(bob("I live in Boston."),),
        )
    )

    assert answer.items == []


def test_every_speaker_speaks_for_themselves() -> None:
    answer = propose(window(bob("I live in Boston."), (Role.USER, "Ann", "I live in Oslo.")))

    assert [item.text for item in answer.items] == ["Bob lives in Boston.", "Ann lives in Oslo."]
    assert [item.turns for item in answer.items] == [[1], [2]]


def test_a_crowded_window_has_so_many_facts_at_most() -> None:
    answer = propose(window(bob(" ".join(f"I thought about road number {n}." for n in range(300)))))

    assert len(answer.items) == 256


def test_long_sentences_are_stored_and_cut_at_a_word() -> None:
    text = "I remember " + "".join(f"mountain{number} " for number in range(400))
    item = only(text)

    assert len(item.text) <= 2_000
    assert item.text.rpartition(" ")[2] in text.split()
    assert len(item.quote) <= 400
    assert item.quote in text


def test_each_cell_has_a_summary_with_its_speaker() -> None:
    answer = propose(window(bob("I live in Boston."), assistant("Nice."), bob("Thanks!"), assistant("Bye!")))

    assert [summary.cell for summary in answer.summaries] == [1, 2]
    assert answer.summaries[0].text == "Bob lives in Boston."
    assert answer.summaries[1].text == "Bob: Thanks! assistant: Bye!"


@pytest.mark.parametrize(
    "sentence, names",
    [
        ("I met Alice Cooper in New York.", ("Alice Cooper", "New York")),
        ("Maya's cat sleeps.", ("Maya",)),
        ("On Monday in May it rained.", ()),
        ("Honestly it was fine.", ()),
        ("I WANT TO GO HOME RIGHT NOW", ()),
        ("We saw the Bank of England.", ("Bank of England",)),
    ],
)
def test_names_are_capitalized_words_but_not_days_or_openers(sentence: str, names: tuple[str, ...]) -> None:
    assert names_in(sentence) == names


@pytest.mark.parametrize(
    "text",
    [
        "I quit smoking.",
        "I quit the gym.",
        "I want to quit.",
        "I left Boston at noon.",
        "I left Oslo and moved to Lund.",
        "I joined Ben for lunch.",
        "I joined Facebook Club.",
    ],
)
def test_other_things_are_quit_left_and_joined_than_jobs(text: str) -> None:
    assert "job" not in {item.attribute for item in items(text)}


def test_each_state_of_a_sentence_has_its_own_date() -> None:
    left, joined = items("I left Initech in April and joined Hooli in May.")

    assert (left.value, left.change, left.when) == ("Initech", Change.STOP, "in April")
    assert (joined.value, joined.change, joined.when) == ("Hooli", Change.START, "in May")


def test_states_without_a_date_of_their_own_share_the_first() -> None:
    left, joined = items("In April I left Initech and joined Hooli.")

    assert (left.when, joined.when) == ("In April", "In April")


MAIL = """Look what Henrike writes. I live in Oslo.

From: Henrike Aalders <orders@seed.example>
Subject: Your order

I have moved to Bergen. My new job is at the seed bank."""


def pasted_turn(text: str, start: int = 0, end: int | None = None) -> Window:
    """A window of one turn, or of a part of it."""
    part = text[start:end]
    parts = (piece.within(start, start + len(part)) for piece in pasted(text))
    [turn] = turns_of([bob(part)], 1, 1)
    turn = replace(turn, pasted=tuple(piece for piece in parts if piece is not None))
    return Window(owner="Bob", time_zone="UTC", context=(), turns=(turn,), cells=1)


def states(window: Window) -> set[tuple[str, str, str]]:
    return {(item.subject, item.attribute, item.value) for item in propose(window).items if item.attribute}


class TestPasted:
    def test_a_pasted_mail_states_of_its_writer_not_of_who_pastes_it(self) -> None:
        found = states(pasted_turn(MAIL))
        assert ("Bob", "residence", "Oslo") in found
        assert ("Henrike Aalders", "residence", "Bergen") in found
        assert not {value for subject, _, value in found if subject == "Bob"} - {"Oslo"}

    def test_a_part_of_a_long_turn_knows_whose_mail_it_is_from(self) -> None:
        assert states(pasted_turn(MAIL, MAIL.index("I have moved"))) == states(pasted_turn(MAIL)) - {
            ("Bob", "residence", "Oslo")
        }

    def test_who_pastes_an_own_mail_is_its_writer(self) -> None:
        assert ("Bob", "residence", "Bergen") in states(pasted_turn(MAIL.replace("Henrike Aalders", "bob")))

    def test_lines_that_nobody_signed_state_nothing(self) -> None:
        assert states(pasted_turn("> I live in Rome\nNo, I live in Oslo.")) == {("Bob", "residence", "Oslo")}

    def test_every_quote_is_found_in_the_turn(self) -> None:
        window = pasted_turn(MAIL.replace("I have", "> I have"))
        assert all(item.quote in window.turns[0].text for item in propose(window).items)
