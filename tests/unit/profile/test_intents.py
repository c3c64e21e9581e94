"""What texts ask of a memory, by rules; and what of a model's reading is taken."""

from __future__ import annotations

import pytest

from memforest_core.assistant.profile.intents import Chat, IntentAnswer, _checked, read_by_rules
from memforest_core.assistant.profile.persons import alias_in
from memforest_core.assistant.profile.records import Intent, IntentKind, Made
from memforest_core.domain.people import People
from memforest_core.errors import ContentFault

REMEMBER, FORGET, ABOUT_ME, ABOUT, RECALL, _ = IntentKind


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("Remember that I moved to Miami.", REMEMBER, "I moved to Miami"),
        ("remember: my birthday is 5 May", REMEMBER, "my birthday is 5 May"),
        ("Hey, can you remember that I am allergic to nuts?", REMEMBER, "I am allergic to nuts"),
        ("Don\u2019t forget that I hate cilantro.", REMEMBER, "I hate cilantro"),
        ("never forget my birthday is 5 May", REMEMBER, "my birthday is 5 May"),
        ("Keep in mind that we meet on Fridays.", REMEMBER, "we meet on Fridays"),
        ("Note that the code is 1234.", REMEMBER, "the code is 1234"),
        ("Hi! Remember that I live in Oslo. What's the weather?", REMEMBER, "I live in Oslo"),
        ("I want you to remember that I'm left-handed", REMEMBER, "I'm left-handed"),
        ("forget that I like jazz", FORGET, "I like jazz"),
        ("Please forget where I work.", FORGET, "where I work"),
        ("please forget about my ex", FORGET, "my ex"),
        ("Forget everything about my job.", FORGET, "my job"),
        ("Forget what I told you about my boss", FORGET, "my boss"),
        ("delete my address from your memory", FORGET, "my address"),
        ("What do you know about me?", ABOUT_ME, ""),
        ("Tell me everything you know about me", ABOUT_ME, ""),
        ("Who am I?", ABOUT_ME, ""),
        ("what do you remember about my job?", ABOUT_ME, "my job"),
    ],
)
def test_requests_are_read_with_their_object(text: str, kind: IntentKind, what: str) -> None:
    assert read_by_rules(text) == Intent(kind, what, Made.RULES)


PEOPLE = People("guild", [("111", "gruzilkin"), ("222", "Florent"), ("333", "Mira"), ("444", "Lea Brandt")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bot remember that gruzilkin is Sergey", (REMEMBER, "gruzilkin is Sergey", "111", "Sergey")),
        ("memo, note that Flo is also called Florent", (REMEMBER, "Flo is also called Florent", "222", "Flo")),
        ("bot remember 'shadow' is florent's nickname", (REMEMBER, "'shadow' is florent's nickname", "222", "shadow")),
        ("bot, birdie2 is me", (REMEMBER, "birdie2 is me", "333", "birdie2")),
        ("Bot: I go by birdie2, remember that", (REMEMBER, "I go by birdie2", "333", "birdie2")),
        ("Bot, remember this about Florent: he hates olives", (REMEMBER, "he hates olives", "222", None)),
        ("Bot, remember this about Zed: he hates olives", (REMEMBER, "he hates olives", "Zed", None)),
        ("@bot remember florent's birthday is 4 May", (REMEMBER, "florent's birthday is 4 May", "222", None)),
        ("ok bot. Please note: <@111> has the key", (REMEMBER, "<@111> has the key", "111", None)),
        ("could you please remember, memo, that dues are 5 euros", (REMEMBER, "dues are 5 euros", None, None)),
        ("Remember that I sing, bot!", (REMEMBER, "I sing", "333", None)),
        ("hey memo, forget that I live in Lyon", (FORGET, "I live in Lyon", "333", None)),
        ("Bot, forget what I said about pizza", (FORGET, "pizza", "333", None)),
        ("Bot forget everything about Florent's job, please", (FORGET, "Florent's job", "222", None)),
        ("Bot, what do you know about @gruzilkin?", (ABOUT, "", "111", None)),
        ("bot what do you know about Bob", (ABOUT, "", "Bob", None)),
        ("bot, who is florent?", (ABOUT, "", "222", None)),
        ("bot what do you know about me", (ABOUT_ME, "", "333", None)),
        ("bot don't remember that I smoke anymore", (FORGET, "I smoke", "333", None)),
        ("hey there bot, write this down: Florent paid, thanks", (REMEMBER, "Florent paid", "222", None)),
        ("bot wer ist Florent?", (ABOUT, "", "222", None)),
        ("bot does Florent like olives?", (RECALL, "does Florent like olives", "222", None)),
        ("memo, when do we meet?", (RECALL, "when do we meet", None, None)),
        ("Memo, merk dir bitte, dass Lea am Montag kocht", (REMEMBER, "Lea am Montag kocht", "444", None)),
        ("Bot, vergiss, dass ich rauche", (FORGET, "ich rauche", "333", None)),
        ("Bot, was weißt du über Florent?", (ABOUT, "", "222", None)),
        ("Bot, souviens-toi que Florent part le 3 juin", (REMEMBER, "Florent part le 3 juin", "222", None)),
        ("bot oublie que j\u2019ai un chien", (FORGET, "j'ai un chien", "333", None)),
        ("Bot, recuerda que Florent llega hoy", (REMEMBER, "Florent llega hoy", "222", None)),
    ],
)
def test_commands_of_a_group_are_read_with_whom_they_are_about(
    text: str, expected: tuple[IntentKind, str, str | None, str | None]
) -> None:
    found = read_by_rules(text, Chat(PEOPLE, "Mira", ("bot", "memo")))

    assert (found.kind, found.object, found.about, found.alias) == expected


@pytest.mark.parametrize(
    "text",
    [
        "remember when we went to Lyon?",
        "I don't remember what the bot said",
        "he said bot remember that Mira is late",
        "tell bot to remember the dates",
        "bottle remember that I sing",
        "bot's memory: remember that I sing",
        "did bot forget that again?",
        "never forget that trip",
        "Bot, never forget that trip to the lakes",
        "bot forget that noise",
        "Bot, forget it",
        "bot is slow today",
        "remember that bot is a program",
        "remember that I sing",
        "what do you know about Florent?",
        "> bot remember that I sing\nwho wrote this?",
        "memo to self: remember the milk",
        "bot, how are you?",
        "Bot, vergiss nicht den Schirm",
        "bot, did you eat Florent's lunch?",
        "bot, Florent is hungover",
        "bot call me later",
        "bot delete that file",
        "Bot, tu te souviens du lac ?",
    ],
)
def test_near_misses_request_nothing(text: str) -> None:
    assert read_by_rules(text, Chat(PEOPLE, "Mira", ("bot", "memo"))).kind is IntentKind.NONE


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("gruzilkin is Sergey", ("111", "Sergey")),
        ("Sergey is gruzilkin", ("111", "Sergey")),
        ("Florent's real name is Florent Dubois", ("222", "Florent Dubois")),
        ("<@222> = flo_77", ("222", "flo_77")),
        ("gruzilkin hei\u00dft Sergej", ("111", "Sergej")),
        *(
            (f"{name} is {word}", None)
            for name in ("gruzilkin", "Florent")
            for word in ("late", "German", "Belgian", "AFK")
        ),
        ("Florent is Batman", None),
        ("Sergey is Kim", None),
        ("Florent is the boss", None),
        ("gruzilkin is in Paris", None),
        ("winner is Florent", None),
        ("gruzilkin is 33", None),
    ],
)
def test_a_sentence_gives_an_alias_only_between_a_handle_and_a_name(text: str, alias: tuple[str, str] | None) -> None:
    found = alias_in(text, PEOPLE)

    assert (found and (getattr(found.of, "id", found.of), found.name)) == alias


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello there",
        "Do you remember where I live?",
        "Remember when we went to Rome?",
        "Remember me?",
        "I remember that day.",
        "I always forget my keys.",
        "forget it",
        "Forget about it!",
        "note to self",
        "Delete the file report.txt",
        "What do you know about quantum physics?",
        "What is my job?",
    ],
)
def test_other_texts_ask_for_nothing(text: str) -> None:
    assert read_by_rules(text) == Intent(IntentKind.NONE, "", Made.RULES)


@pytest.mark.parametrize(
    "text",
    [
        "remember " * 1_000,
        "forget about " * 1_000,
        "please " * 1_100,
        "what do you " * 680,
        "bot x" + " " * 8_000 + "y",
    ],
)
def test_long_texts_are_read_in_no_time(text: str) -> None:
    read_by_rules(text)


@pytest.mark.parametrize(
    ("kind", "what", "expected"),
    [
        ("remember", "i  LIVE in Oslo.", Intent(REMEMBER, "i LIVE in Oslo", Made.MODEL)),
        ("about_me", "", Intent(ABOUT_ME, "", Made.MODEL)),
        ("none", "anything", Intent(IntentKind.NONE, "", Made.MODEL)),
    ],
)
def test_a_models_object_is_a_run_of_words_of_the_text(kind: str, what: str, expected: Intent) -> None:
    answer = IntentAnswer(kind=IntentKind(kind), object=what)

    assert _checked(answer, "Please keep: I live in Oslo.") == expected


@pytest.mark.parametrize(("kind", "what"), [("remember", "I live in Bergen"), ("forget", ""), ("remember", " . ")])
def test_a_models_object_that_is_not_in_the_text_is_a_fault(kind: str, what: str) -> None:
    with pytest.raises(ContentFault):
        _checked(IntentAnswer(kind=IntentKind(kind), object=what), "Please keep: I live in Oslo.")
