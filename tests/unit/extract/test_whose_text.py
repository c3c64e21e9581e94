"""Whose text a turn has: text that says nothing of its speaker makes no state, and what the speaker says does."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.pasted import Pasted, own_text, pasted
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.offline.proposing import propose

NOBODYS = [
    "```\nI live in Rome\n```",
    "~~~sql\nselect 1 -- I work at Acme\n~~~",
    "def about():\n    return 'x'  # I live in Rome\n# I work at Acme",
    "#include <stdio.h>\n/* I live in Rome */\nint main() { }",
    'console.log("I live in Rome");\n// my name is Bob',
    "SELECT * FROM users;\n-- I live in Rome",
    "INSERT INTO bios (text) VALUES ('I live in Rome');",
    "2026-03-04 10:11:12 INFO user: I live in Rome",
    "[ERROR] chat: I am 34 years old",
    "Mar  4 10:11:12 host app[12]: I live in Rome",
    "--- a/bio.txt\n+++ b/bio.txt\n@@ -1 +1 @@\n-I live in Oslo\n+I live in Rome",
    'Exception in thread "main" java.lang.RuntimeException: I am a nurse\n\tat com.acme.Main.main(Main.java:3)',
    "<div><span>Hi</span><p>I live in Rome</p></div>",
    "| who | what |\n|---|---|\n| Ann | I live in Rome |\n| Bob | I work at Acme |",
    '{"name": "Bob", "bio": "I live in Rome"}',
    "Ann: Hi! I moved to Rome.\nBob: Great, I work at Acme now.\nAnn: I love it.",
    "[10:12] Ann: I live in Rome\n[10:13] Bob: I work at Acme",
    "12/03/2024, 10:12 - Ann: I live in Rome\n12/03/2024, 10:13 - Bob: I work at Acme",
    "User: I live in Rome\nAssistant: Great!",
    "Interviewer: Where do you live?\nCandidate: I live in Rome.",
    "**Ann:** I live in Rome\n**Bob:** I work at Acme",
    "Dr. Lee: Any allergies?\nMr. Poe: I'm allergic to nuts.",
    "Q: Where do you live?\nA: I live in Rome.",
    "[Verse 1]\nI live in a yellow submarine\nI am a poor boy",
    "♪ I am a poor boy, I live in Rome ♪",
    "Song lyrics: I live in a yellow submarine",
    "“I live in Rome”",
    '"I live in Rome. I work at Acme."',
    "`I live in Rome`",
    "«I live in Rome. I work at Acme.»",
    "Translate: I live in Berlin.",
    "Translate this to German:\n\nI live in Berlin.\n\nI work at Siemens.",
    "Could you please proofread this for me:\nI has lived in Rome. I am a nurse.",
    "Fix the grammar of this: I lives in Rome.",
    "Correct this sentence: I am living in Rome since 2010.",
    "Summarize: I live in Rome and work at Acme. I am 34 years old.",
    "Rewrite this in a formal tone: I live in Rome",
    "Make this email sound nicer: I live in Rome and I am a nurse.",
    "Is this sentence correct: I am living in Rome?",
    "How do you say in French: I live in Rome",
    "What does this sentence mean: I live in Rome",
    "Write a letter from a soldier: My name is Tom. I live in Ghent.",
    'Write a poem that begins with "I live in Rome".',
    "Write an email to the landlord saying that I live in Rome.",
    "Generate a bio for my character: I live in Rome.",
    "Finish the sentence: I live in",
    "Reply to this message: I moved to Rome and I'm a nurse now.",
    "Here is the email I got:\n\nI live in Rome. I work at Acme.",
    "Ann wrote: I live in Rome.",
    "My sister said: I live in Rome now",
    "Repeat after me: I live in Rome.",
    "Let's role play. You are the doctor and I am the patient. I am 34 years old.",
    "Act as a travel agent. I live in Rome and am 34 years old.",
    "Let's pretend I live in Rome.",
    "Roleplay: I'm a knight and I live in Camelot.",
    "You are Sherlock. I am Watson. I live in London.",
    "Suppose I live in Rome and work at Acme.",
    "Scenario: I'm a nurse in Rome.",
    "Translate I live in Berlin to German",
    "I live in Berlin and work at Siemens. Translate that to German.",
    "> I live in Rome",
    "Example sentence: I live in Rome.",
    "Grammar check: I lives in Rome.",
    "My name is Bob, I live in Rome. - rewrite this as a poem",
    "Write a dialogue between a doctor and a patient:\n- I am 34 years old.\n- I live in Rome.",
    "Debug this: print('I live in Rome')",
    "(role play) I live in Rome",
    "The ad says: I live in Rome",
]
OWN = [
    "PS: I moved to Oslo.",
    "Please remember that I moved to Oslo",
    "Can you help me find a flat, I just moved to Oslo",
    "My doctor asked me to rest. I live in Oslo.",
    "- I live in Oslo\n- I work at Acme",
    "1. I live in Oslo\n2. I work at Acme",
    "Home: I live in Oslo\nWork: I work at Acme",
    "About me: I live in Oslo",
    "Monday: I ran.\nTuesday: I rested.\nI live in Oslo.",
    "Long story short: I moved to Oslo.",
    "Guess what: I moved to Oslo!",
    "I said it before: I live in Oslo.",
    "We translate books at work. I live in Oslo.",
    "I wrote a letter to my bank: I moved to Oslo.",
    "I love role-playing games. I live in Oslo.",
    "You're the best! I live in Oslo now.",
    "Recommend a restaurant: I live in Oslo and I'm vegan.",
    "Let's play tennis! I live in Oslo now.",
    "We pay $ 500 | month. I live in Oslo.",
    "My name is <name>. I live in Oslo.",
    "On 2026-03-04 I moved to Oslo.",
    "Write to me any time. I live in Oslo.",
    "Help me write a cover letter. I live in Oslo.",
    "I live in Oslo -> it's great",
    "Imagine my joy! I live in Oslo now.",
    "Hi Ann: I live in Oslo now.",
    "Write a bio about me: I live in Oslo.",
    "Name: Kim\nCity: Oslo\nI live in Oslo.",
    "It's 10:30: I live in Oslo.",
    "Oslo update: I live in Oslo.",
    "Summary of my year: I moved to Oslo.",
    "I am a nurse (ICU) and I live in Oslo.",
    "+47 123 45 678\n- I live in Oslo",
    "Remind me to call Ann: I live in Oslo and she does not know.",
    "I live in Oslo. Translate the menu for me.",
]


def said(text: str) -> Window:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    turn = WindowTurn(1, 1, 1, Role.USER, "Kim", text, at, pasted(text))
    return Window(owner="Kim", time_zone="UTC", context=(), turns=(turn,), cells=1)


def states(text: str) -> set[tuple[str, str]]:
    return {(item.subject, item.value) for item in propose(said(text)).items if item.attribute}


@pytest.mark.parametrize("text", NOBODYS)
def test_text_that_is_not_said_of_oneself_makes_no_state(text: str) -> None:
    assert states(text) == set()


@pytest.mark.parametrize("text", OWN)
def test_what_only_looks_like_it_is_the_speakers_own(text: str) -> None:
    assert ("Kim", "Oslo") in states(text)


def test_pasted_text_is_stored_as_sent_with_its_words_unchanged_and_about_nobody() -> None:
    (item,) = propose(said("<p>I live in Rome</p>")).items
    assert (item.text, item.subject, item.quote) == (
        "Kim sent the text: <p>I live in Rome</p>",
        "",
        "<p>I live in Rome</p>",
    )


def test_a_turn_says_its_own_words_around_what_it_pastes() -> None:
    text = "I live in Oslo.\n```\nI live in Rome\n```\nI work at Acme."
    assert states(text) == {("Kim", "Oslo"), ("Kim", "Acme")}
    own = own_text(text, pasted(text))
    assert "Rome" not in own and len(own) == len(text) and own.index("Acme") == text.index("Acme")


def test_a_mail_that_a_request_is_about_is_its_writers() -> None:
    text = "Summarize this mail:\n\nFrom: Anna Berg <anna@x.example>\nSubject: Hi\n\nI moved to Bergen."
    assert pasted(text)[-1].author == "Anna Berg" and states(text) == {("Anna Berg", "Bergen")}


def test_pasted_parts_are_in_order_and_do_not_overlap() -> None:
    found = pasted('Translate: "I live in Rome. I am Bob."\n\n```\nx\n```\n> I work at Acme\n\n// I am Tom')
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert found and all(isinstance(piece, Pasted) and not piece.author for piece in found)


@pytest.mark.parametrize(
    "unit", ["\n", " ", "- x\n", '{"a":', "<a1>", "I am. ", "Ann: I x\n", "translate this ", '"abc ', "```"]
)
def test_the_work_grows_with_the_text_and_not_with_its_square(unit: str) -> None:
    def cost(chars: int) -> float:
        text = (unit * chars)[:chars]

        def once() -> float:
            began = time.process_time()
            pasted(text)
            return time.process_time() - began

        return min(once() for _ in range(3))  # another's garbage may be collected meanwhile

    assert cost(65_536) < 40 * max(cost(8_192), 0.005)
