"""What the offline rules take from a conversation: statements, states, names, scenes and tools' results."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Change, Modality, Origin, Polarity
from memforest_core.domain.pasted import pasted
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import Item
from memforest_core.ingest.extract.offline import english_text
from memforest_core.ingest.extract.offline.english_text import names_in, scene_of
from memforest_core.ingest.extract.offline.person import to_third_person
from memforest_core.ingest.extract.offline.proposing import MAX_RESULTS, propose, results
from memforest_core.ingest.extract.offline.stance import accepts

SAID_AT = datetime(2024, 3, 4, 9, 30, tzinfo=UTC)
Line = tuple[Role, str, str]


def cases(table: str) -> list[tuple[str, ...]]:
    """The cases of a table: "said -> expected", several in a line with " / " between them."""
    lines = (line.strip() for line in table.strip().splitlines())
    return [tuple(case.strip().split(" -> ")) for line in lines for case in line.split(" / ")]


def said_in(table: str) -> list[str]:
    return [said for said, *_ in cases(table)]


def turns_of(lines: list[Line], first: int, cell: int | None) -> tuple[WindowTurn, ...]:
    return tuple(
        WindowTurn(first + at, 1 + at // 2 if cell is None else cell, at, role, speaker, text, SAID_AT)
        for at, (role, speaker, text) in enumerate(lines)
    )


def window(*lines: Line, context: tuple[Line, ...] = ()) -> Window:
    before, turns = turns_of(list(context), 1 - len(context), 0), turns_of(list(lines), 1, None)
    return Window(owner="Bob", time_zone="UTC", context=before, turns=turns, cells=(len(lines) + 1) // 2)


def bob(text: str) -> Line:
    return Role.USER, "Bob", text


def assistant(text: str) -> Line:
    return Role.ASSISTANT, "assistant", text


def items(*texts: str, context: int = 0) -> list[Item]:
    """The items of turns of Bob's; the first ``context`` of them were extracted before."""
    lines = [bob(text) for text in texts]
    return propose(window(*lines[context:], context=tuple(lines[:context]))).items


def only(text: str) -> Item:
    (item,) = items(text)
    return item


def states(*texts: str) -> list[tuple[str, str, str]]:
    return [(item.subject, item.attribute, item.value) for item in items(*texts) if item.attribute]


def stated(found: list[Item]) -> str:
    """States of one attribute as the tables have them: "pet=goats+donkey start"."""
    attribute, change = found[0].attribute, found[0].change
    assert {(item.attribute, item.change) for item in found} == {(attribute, change)}
    values = f"{attribute}={'+'.join(item.value for item in found)}"
    return values if change is Change.NONE else f"{values} {change.value}"


THIRD_PERSON = """
    I live in Boston. -> Bob lives in Boston. / I'm tired of the rain. -> Bob is tired of the rain.
    I've seen Rome. -> Bob has seen Rome. / I don't drink. -> Bob doesn't drink.
    I haven't slept. -> Bob hasn't slept. / I'd like tea. -> Bob would like tea.
    I'd been there before. -> Bob had been there before. / My dog barks. -> Bob's dog barks.
    The red one is mine. -> The red one is Bob's. / Ann called me. -> Ann called Bob.
    I really enjoy chess. -> Bob really enjoys chess. / I study law. -> Bob studies law.
    I moved and then I rested. -> Bob moved and then Bob rested. / I no longer smoke. -> Bob no longer smokes.
    I live in Rome and work at Fiat. -> Bob lives in Rome and works at Fiat.
    My wife and I live in Oslo. -> Bob's wife and Bob live in Oslo. / I'll call Ann. -> Bob will call Ann.
    We adopted a cat. -> Bob and others adopted a cat. / We're in Lima. -> Bob and others are in Lima.
    Ann said "I love my job" to me. -> Ann said "I love my job" to Bob.
    He read about World War I today. -> He read about World War I today. / I teach math. -> Bob teaches math.
"""


@pytest.mark.parametrize(("said", "reported"), cases(THIRD_PERSON))
def test_first_person_becomes_the_speaker(said: str, reported: str) -> None:
    assert to_third_person(said, "Bob") == reported


@pytest.mark.parametrize(
    ("said", "text"),
    cases("""
    I almost moved to Denver. -> Bob almost moved to Denver. / I skateboard to work. -> Bob skateboard to work.
    Grandpa was like my back hurts -> Bob said: Grandpa was like my back hurts
    I sang 'my way' loudly at the wedding -> Bob said: I sang 'my way' loudly at the wedding
    """),
)
def test_a_sentence_is_rewritten_only_where_that_is_certain(said: str, text: str) -> None:
    assert [item.text for item in items(said)] == [text]


STATED = """
    I live in Boston. -> residence=Boston / I moved to Denver last month. -> residence=Denver switch
    I used to live in Rome. -> residence=Rome stop / I grew up in Ohio. -> hometown=Ohio
    I work at Google. -> job=Google / I'm a software engineer. -> job=software engineer
    I started a new job at Stripe. -> job=Stripe start / I work as a nurse. -> job=nurse
    I got promoted to senior manager on Friday. -> job=senior manager switch / I quit my job at Acme. -> job=Acme stop
    I don't work at Google anymore. -> job=Google stop / I turned 30 yesterday. -> age=30
    I adopted a dog named Biscuit. -> pet=dog named Biscuit start / My cat is named Milo. -> pet name=Milo
    I bought a car. -> possession=car start / I sold my motorcycle. -> possession=motorcycle stop
    I got engaged to Sarah! -> relationship=engaged to Sarah / My sister is called Maya. -> sister=Maya
    My name is Bob Stone. -> name=Bob Stone / My rent is $1,500. -> rent=$1,500 / I love hiking. -> preference=hiking
    My favourite colour is blue. -> favorite colour=blue / I became a vegetarian. -> diet=vegetarian
    I quit smoking in March. -> activity=smoking stop / I started learning Spanish. -> activity=learning Spanish start
    I moved into my new flat in Bergen this morning. -> residence=Bergen switch
    I moved out of Ghent. -> residence=Ghent stop / I no longer live there. -> residence= stop
    I no longer work there. -> job= stop / I quit. -> job= stop / I quit Initech in May. -> job=Initech stop
    I got laid off last Friday. -> job= stop / I joined Hooli as a designer two weeks ago. -> job=Hooli start
    Our dog Nero ran away. -> pet=dog Nero stop / We gave our cat Misty away. -> pet=cat Misty stop
    I lost my dog Rex in April. -> pet=dog Rex stop / My bike was stolen. -> possession=bike stop
    I started dating Kim. -> relationship=dating Kim start / Ben and I broke up. -> relationship= stop
    im living in tartu these days -> residence=tartu / i live in a tiny flat near Lucerne -> residence=near Lucerne
    ive moved back to cork btw -> residence=cork switch / born and raised in aarhus -> hometown=aarhus
    I come from Oaxaca, where everybody dances -> hometown=Oaxaca / im coeliac -> diet=coeliac
    florist here, ask me anything -> job=florist / i work part-time at a bakery -> job=bakery
    been unemployed since may... im unemployed -> job=unemployed / i play the oboe -> activity=oboe
    dont ask, i weigh 91 kilos -> weight=91 kilos / im allergic to cashews and cats -> allergy=cashews+cats
    we've got two goats and a donkey -> pet=goats+donkey / my dog Bilbo is snoring -> pet=dog Bilbo
    i drive an old skoda -> possession=old skoda / i love ramen, crosswords -> preference=ramen+crosswords
    happily married here -> relationship=married / my name's Mia Sandoval -> name=Mia Sandoval
    last week Norvik promoted me to head of customer support -> job=head of customer support switch
    I told the agency no, because Norvik promoted me to senior editor -> job=senior editor switch
    the county hospital gave me a job as a midwife -> job=midwife switch / a bakery hired me as a cashier -> job=cashier switch
    my title is director of marketing -> job=director of marketing / I handed in my notice at Norvik -> job=Norvik stop
    one thing you should remember if i ever ask for a menu: i'm allergic to walnuts -> allergy=walnuts
    If I ask for a menu, remember that I'm allergic to walnuts. -> allergy=walnuts
    in case you cook for me: don't forget i'm allergic to walnuts -> allergy=walnuts
"""


@pytest.mark.parametrize(("said", "expected"), cases(STATED))
def test_what_is_plainly_said_of_oneself_is_a_state(said: str, expected: str) -> None:
    found = items(said)

    assert stated(found) == expected
    assert {(item.subject, item.polarity) for item in found} == {("Bob", Polarity.POSITIVE)}


NOT_STATED = """
    the stove is from the iron age / that rota worked for everyone / he eats like a winner / i almost became a nurse
    imagine i live in a lighthouse / if i lived in Kyoto i'd walk more / everyone thinks i live in Graz
    not sure i'm allergic to bees / i live in Ghent, kidding / my name is not Otto / she works at Lidl
    i like how you put it / i feel like a teacher / i'm 5 km from the shop / we moved to Kubernetes
    i moved to tears of joy / i'm from the future / do i live in Oslo? / i'd love a dog / married to my job
    dinner moved to the 14th / my desk lives in the hallway / i refuse to live in Leeds / let's say i work at Nokia
    it's not true that i live in Graz / i doubt i'm vegan / i love it when it snows / i'm a terrible cook
    i'm 10 minutes late / i live in fear / i'm allergic to mondays / i want to live in Rome / it looks like a dog
    imagine i'm allergic to walnuts / do you remember if i'm allergic to walnuts
    he told me to remember that i'm allergic to walnuts / they never promoted me to manager
    if they hired me as a cook i'd move / he says Norvik promoted me to manager / i told the clerk that i'm a nurse
    Sorry, I meant Basel, not Bern.
"""


@pytest.mark.parametrize("said", said_in(NOT_STATED))
def test_what_is_not_said_in_earnest_of_oneself_is_no_state(said: str) -> None:
    assert [state for state in states(said) if state[0] == "Bob"] == []


@pytest.mark.parametrize(
    "said",
    said_in("""
    I quit smoking. / I quit the gym. / I want to quit. / I left Boston at noon. / I left Oslo and moved to Lund.
    I joined Ben for lunch. / I joined Facebook Club.
    """),
)
def test_other_things_are_quit_left_and_joined_than_jobs(said: str) -> None:
    assert "job" not in {item.attribute for item in items(said)}


@pytest.mark.parametrize(
    ("said", "expected"),
    cases("""
    i'm not vegan -> diet=vegan / i dont eat shellfish -> diet=shellfish / i hate olives -> preference=olives
    im not allergic to eggs -> allergy=eggs / i don't smoke -> activity=smoking / we don't have a car -> possession=car
    I've given up coffee. -> diet=coffee
    """),
)
def test_a_denial_is_a_state_of_its_own(said: str, expected: str) -> None:
    assert (stated(items(said)), only(said).polarity) == (expected, Polarity.NEGATIVE)


@pytest.mark.parametrize(
    ("said", "polarity"),
    cases("""
    I don't eat meat. -> negative / I never liked coffee. -> negative / I hate mushrooms. -> negative
    I can't wait to visit Kyoto! -> positive / I live in Denver, not Boston. -> positive
    """),
)
def test_a_denial_is_negative_in_its_own_clause(said: str, polarity: str) -> None:
    assert only(said).polarity.value == polarity


@pytest.mark.parametrize(
    ("said", "modality"),
    cases("""
    I moved to Denver. -> asserted / I'm moving to Denver. -> planned / I start at Globex on Monday. -> planned
    I plan to visit Japan. -> planned / I'll start therapy on Monday. -> planned / I hope to become a chef. -> planned
    I'd like to learn the piano. -> planned / Alice told me she quit her job. -> hearsay
    Apparently the office is closing. -> hearsay / I might visit Japan. -> hypothetical
    Maybe I will sell my car. -> hypothetical / If I get a raise, I'll move to Denver. -> hypothetical
    I live in Boston and I'm going to run a marathon. -> asserted / im getting a dog on saturday -> planned
    """),
)
def test_plans_hearsay_and_guesses_are_distinguished(said: str, modality: str) -> None:
    assert only(said).modality.value == modality


@pytest.mark.parametrize(
    "said",
    said_in("""
    Hi! / Good morning, Alice! / Thank you, that helps a lot! / That's great to hear! / You're welcome!
    Congratulations! / What's the weather like? / Can you recommend a book? / Please write a poem about rain.
    Lucky you! / Sounds like a plan / Tell me about it / ok / 👍 / Wow, that's awesome! / See you later! / So true
    """),
)
def test_what_carries_nothing_is_skipped(said: str) -> None:
    assert items(said) == []


def test_a_greeting_or_question_does_not_hide_the_statement_next_to_it() -> None:
    greeted = only("Hi Alice, I adopted a dog.")
    requested = only("I just moved to Seattle, do you know any good cafes?")

    assert (greeted.text, greeted.entities) == ("Bob adopted a dog.", [])
    assert (requested.attribute, requested.value) == ("residence", "Seattle")
    assert requested.quote == "I just moved to Seattle, do you know any good cafes?"
    assert only("When I was a kid I broke my arm.").subject == "Bob"


def test_a_move_names_both_cities_and_its_date() -> None:
    item = only("I moved from Boston to Denver last month.")

    assert (item.value, item.previous_value, item.when) == ("Denver", "Boston", "last month")
    assert (item.entities, item.scene) == (["Boston", "Denver"], "home/moving")


def test_two_states_of_one_sentence_become_two_items() -> None:
    home, job = items("I live in Boston and work at Google.")

    assert (home.attribute, home.value) == ("residence", "Boston")
    assert (job.text, job.attribute, job.value) == ("Bob works at Google", "job", "Google")
    assert home.quote == job.quote


@pytest.mark.parametrize(
    ("said", "dates"),
    [
        ("I left Initech in April and joined Hooli in May.", ["in April", "in May"]),
        ("In April I left Initech and joined Hooli.", ["In April", "In April"]),
    ],
)
def test_each_state_of_a_sentence_has_its_own_date_or_shares_the_first(said: str, dates: list[str]) -> None:
    found = [(item.value, item.change, item.when) for item in items(said)]
    assert found == [("Initech", Change.STOP, dates[0]), ("Hooli", Change.START, dates[1])]


@pytest.mark.parametrize(
    ("said", "subject"),
    cases("""
    my ex-husband lives in Turku -> Bob's ex-husband / my best mate's mum lives in turku -> Bob's best mate's mum
    my little brother Jon lives in Turku -> Jon / my mother-in-law lives in turku -> Bob's mother-in-law
    My landlord lives in Turku. -> Bob's landlord / Noor lives in Ghent -> Noor
    """),
)
def test_somebody_elses_state_is_theirs(said: str, subject: str) -> None:
    assert [each[0] for each in states(said) if each[1] == "residence"] == [subject]


def test_a_relative_and_a_name_are_facts_of_their_own_without_the_date_of_the_sentence() -> None:
    sister, visit = items("My sister Ines is visiting since Monday.")
    (name,) = items("I'm Bob.")

    assert (sister.text, sister.attribute, sister.value, sister.when) == ("Ines is Bob's sister.", "sister", "Ines", "")
    assert (visit.attribute, visit.when) == ("", "since Monday")
    assert (name.text, name.attribute, name.value) == ("Bob's name is Bob.", "name", "Bob")
    assert states("Everybody lives in Ghent", "Seeing lives in Ghent") == []


def test_hearsay_is_about_the_person_it_mentions_and_states_nothing() -> None:
    item = only("Alice told me she quit her job at Acme.")

    assert (item.subject, item.speaker, item.attribute) == ("Alice", "Bob", "")
    assert item.text == "Alice told Bob she quit her job at Acme."
    assert only("The concert in Hyde Park was loud.").text.startswith("Bob said: ")


def test_a_correction_names_what_it_takes_back() -> None:
    item = only("Actually, it's Denver, not Boston.")

    assert (item.change, item.previous_value, item.subject) == (Change.CORRECT, "Boston", "Bob")
    assert only("No, I live in Berlin now.").change is Change.CORRECT
    assert only("Sorry, I meant I live in Denver.").change is Change.CORRECT


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

    assert (item.subject, item.attribute, item.value, item.previous_value) == ("Bob", attribute, value, previous)
    assert item.change is (Change.CORRECT if previous else Change.NONE)


@pytest.mark.parametrize("second", ["*68 kg", "I wish I were joking."])
def test_what_can_mean_nothing_before_it_corrects_nothing(second: str) -> None:
    assert states("I live in Bern.", second) == [("Bob", "residence", "Bern")]


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


def test_a_project_has_a_status() -> None:
    item = only("The Orion project is delayed until June.")

    assert (item.subject, item.attribute) == ("Orion project", "status")
    assert item.text == "The Orion project is delayed until June."


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
    (item,) = propose(window(bob("Any diet tips?"), advice, bob("Sounds good, I'll try that."))).items
    (earlier,) = propose(window(bob("Perfect, I'll do that."), context=(advice,))).items

    own = (
        "Cara is allergic to nuts, keep that in mind. / Perfect day today, I went to the lake. / Yes I know Cara well. / "
        "I love this old place. / I like that song. / I'll take the bus. / Done with my exams!"
    )
    taken = "Great idea! / Sure, thanks. / ok let's do that / I like that. / I'll take the second option. / Please save that."

    assert [each.origin for each in ignored.items] == [Origin.USER]
    assert not [text for text in own.split(" / ") if accepts(text)]
    assert all(accepts(text) for text in taken.split(" / "))
    assert (item.origin, item.speaker, item.subject, item.turns) == (Origin.ASSISTANT, "assistant", "Bob", [2])
    assert "Mediterranean diet with fish" in item.text and "Mediterranean diet" in earlier.text
    assert earlier.turns == [1] and earlier.quote in "Perfect, I'll do that."


def test_at_most_four_facts_come_from_the_assistant_and_256_from_a_window() -> None:
    steps = " ".join(f"You should walk {n} miles each day." for n in range(1, 9))
    advised = propose(window(assistant(steps), bob("Please remember that.")))
    crowded = items(" ".join(f"I thought about road number {n}." for n in range(300)))

    assert sum(item.origin is Origin.ASSISTANT for item in advised.items) == 4
    assert len(crowded) == 256


def test_system_and_tool_turns_and_context_are_not_extracted() -> None:
    others = (Role.SYSTEM, "system", "I live in a server."), (Role.TOOL, "tool", "I work at Google.")
    assert propose(window(*others, context=(bob("I live in Boston."),))).items == []


def test_every_speaker_speaks_for_themselves() -> None:
    answer = propose(window(bob("I live in Boston."), (Role.USER, "Ann", "I live in Oslo.")))

    assert [item.text for item in answer.items] == ["Bob lives in Boston.", "Ann lives in Oslo."]
    assert [item.turns for item in answer.items] == [[1], [2]]


def test_long_sentences_are_stored_and_cut_at_a_word_and_a_loop_of_words_is_none() -> None:
    text = "I remember " + "".join(f"mountain{number} " for number in range(400))
    item = only(text)

    assert len(item.text) <= 2_000 and len(item.quote) <= 400
    assert item.text.rpartition(" ")[2] in text.split()
    assert items("I love you and " * 60) == []


def test_each_cell_has_a_summary_with_its_speaker() -> None:
    answer = propose(window(bob("I live in Boston."), assistant("Nice."), bob("Thanks!"), assistant("Bye!")))

    found = [(summary.cell, summary.text) for summary in answer.summaries]
    assert found == [(1, "Bob lives in Boston."), (2, "Bob: Thanks!")]


NAMED = """
    I met Alice Cooper in New York. -> Alice Cooper, New York / Maya's cat sleeps. -> Maya
    We saw the Bank of England. -> Bank of England / I landed in Rome 3 hours ago. -> Rome
    I paid Ana 20 euros. -> Ana / I paid Ana 20 and left. -> Ana / I gave Anna 5 books. -> Anna
    I met Ana 2 days ago. -> Ana / We were in Rome 2019 and loved it. -> Rome / I use Windows 11 at work. -> Windows 11
    We drove Route 66 and slept. -> Route 66 / My Boeing 747 flight was late. -> Boeing / Clara has a dog. -> Clara
    Maria told me about it. -> Maria / Anna's cat died. -> Anna / Tom and I went home. -> Tom / Ann paints a lot. -> Ann
    Congrats Caroline on the job! -> Caroline / Learning German is hard. -> German
    I read Becoming Nicole by Amy Ellis Nutt. -> Becoming Nicole, Amy Ellis Nutt
"""
NOT_NAMED = """
    Gather your things and go. / Seeing you was nice. / Exist in peace. / Music helps me. / Art gives me joy.
    Nature is calm. / Mental health's a priority. / Creativity is everything to me. / Seven years went by.
    Haven't seen it yet. / Guitar lessons are fun. / On Monday in May it rained. / Honestly it was fine.
    I WANT TO GO HOME RIGHT NOW
"""


@pytest.mark.parametrize(("said", "names"), cases(NAMED))
def test_names_are_capitalized_words_with_numbers_that_belong_to_them(said: str, names: str) -> None:
    assert ", ".join(names_in(said)) == names


@pytest.mark.parametrize("said", said_in(NOT_NAMED))
def test_days_openers_and_common_words_are_no_names(said: str) -> None:
    assert names_in(said) == ()


def test_words_tell_the_scene_and_an_attribute_decides_before_them() -> None:
    assert scene_of("The vacation was short.", "") == "travel"
    assert scene_of("Nothing of note.", "") == ""
    assert scene_of("My dog weighs more than the children.", "weight") == "health/fitness"
    for scene, words in english_text._scenes().items():
        assert {scene_of(word.upper(), "") for word in words} == {scene}


MAIL = """Look what Henrike writes. I live in Oslo.

From: Henrike Aalders <orders@seed.example>
Subject: Your order

I have moved to Bergen. My new job is at the seed bank."""


def pasted_states(text: str, start: int = 0) -> set[tuple[str, str, str]]:
    """The states of a turn, or of the part of it from ``start`` on."""
    part = text[start:]
    parts = (piece.within(start, start + len(part)) for piece in pasted(text))
    [turn] = turns_of([bob(part)], 1, 1)
    turn = replace(turn, pasted=tuple(piece for piece in parts if piece is not None))
    found = propose(Window(owner="Bob", time_zone="UTC", context=(), turns=(turn,), cells=1)).items
    assert all(item.quote in part for item in found)
    return {(item.subject, item.attribute, item.value) for item in found if item.attribute}


def test_a_pasted_mail_states_of_its_writer_not_of_who_pastes_it() -> None:
    found = pasted_states(MAIL)
    assert {("Bob", "residence", "Oslo"), ("Henrike Aalders", "residence", "Bergen")} <= found
    assert not {value for subject, _, value in found if subject == "Bob"} - {"Oslo"}
    assert pasted_states(MAIL, MAIL.index("I have moved")) == found - {("Bob", "residence", "Oslo")}
    assert ("Bob", "residence", "Bergen") in pasted_states(MAIL.replace("Henrike Aalders", "bob"))
    assert pasted_states("> I live in Rome\nNo, I live in Oslo.") == {("Bob", "residence", "Oslo")}


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{"site": "attic", "temperature_c": 6.4, "status": "ok"}', ["attic: temperature 6.4 C"]),
        ('{"room": "attic", "sensor": "a1", "rh_pct": 88, "battery_v": 3}', ["attic a1: rh 88 %, battery 3 V"]),
        ('{"list": [{"site": "a", "load_kw": 2}, {"site": "b", "load_kw": 3}]}', ["a: load 2 kW", "b: load 3 kW"]),
        ('"load_kw": 1}, {"site": "b", "load_kw": 3}, {"site":', ["b: load 3 kW"]),
        ('{"status": "ok", "retry_after_s": 300, "count": 4, "ready": true}', []),
        ('{"temperature_c": 6.4}', []),
        ('{"name": "Eirik", "height_cm": 180}', []),
        ('{"site": "attic", "open_w": true, "price_per_kwh": 1.3}', []),
        ("name: Eirik\nage: 41\ntemperature: 31.5 C", []),
        ('{"site": "attic", "temperature_c": 6.4', []),
        (
            json.dumps([{"site": f"hall {number}", "load_kw": number} for number in range(9)]),
            [f"hall {number}: load {number} kW" for number in range(MAX_RESULTS)],
        ),
    ],
)
def test_values_with_a_unit_of_a_tools_result_become_sentences(text: str, reported: list[str]) -> None:
    found = list(results(text))
    assert [sentence for sentence, _ in found] == reported
    assert all(record in text for _, record in found)


def test_a_tools_result_is_about_nobody() -> None:
    """Given a result with names and states in it, then its facts have no subject, name nobody and set nothing."""
    text = 'My dog is called Rex.\n{"site": "Bob\'s greenhouse", "temperature_c": 31.5, "owner": "Bob"}'
    (item,) = propose(window((Role.TOOL, "tool", text))).items

    assert item.text == "Bob's greenhouse: temperature 31.5 C"
    assert (item.subject, item.attribute, item.entities, item.origin) == ("", "", [], Origin.ASSISTANT)
    assert item.modality is Modality.ASSERTED
