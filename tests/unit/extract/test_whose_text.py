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
from tests.unit.extract.test_offline import said_in

NOBODYS = [
    "```\nI live in Rome\n```",
    "~~~sql\nselect 1 -- I work at Acme\n~~~",
    "def about():\n    return 'x'  # I live in Rome\n# I work at Acme",
    "#include <stdio.h>\n/* I live in Rome */\nint main() { }",
    'console.log("I live in Rome");\n// my name is Bob',
    "SELECT * FROM users;\n-- I live in Rome",
    "--- a/bio.txt\n+++ b/bio.txt\n@@ -1 +1 @@\n-I live in Oslo\n+I live in Rome",
    'Exception in thread "main" java.lang.RuntimeException: I am a nurse\n\tat com.acme.Main.main(Main.java:3)',
    "| who | what |\n|---|---|\n| Ann | I live in Rome |\n| Bob | I work at Acme |",
    "Ann: Hi! I moved to Rome.\nBob: Great, I work at Acme now.\nAnn: I love it.",
    "[10:12] Ann: I live in Rome\n[10:13] Bob: I work at Acme",
    "12/03/2024, 10:12 - Ann: I live in Rome\n12/03/2024, 10:13 - Bob: I work at Acme",
    "User: I live in Rome\nAssistant: Great!",
    "Interviewer: Where do you live?\nCandidate: I live in Rome.",
    "**Ann:** I live in Rome\n**Bob:** I work at Acme",
    "Dr. Lee: Any allergies?\nMr. Poe: I'm allergic to nuts.",
    "Q: Where do you live?\nA: I live in Rome.",
    "[Verse 1]\nI live in a yellow submarine\nI am a poor boy",
    '"I live in Rome. I work at Acme."',
    "Translate this to German:\n\nI live in Berlin.\n\nI work at Siemens.",
    "Could you please proofread this for me:\nI has lived in Rome. I am a nurse.",
    "Here is the email I got:\n\nI live in Rome. I work at Acme.",
    "Write a dialogue between a doctor and a patient:\n- I am 34 years old.\n- I live in Rome.",
    *said_in("""
    Look: ```I live in Rome``` / INSERT INTO bios (text) VALUES ('I live in Rome');
    insert into people (bio) values ('I am a nurse'); / UPDATE users SET bio = 'I live in Rome' WHERE id = 3;
    2026-03-04 10:11:12 INFO user: I live in Rome / [ERROR] chat: I am 34 years old / INFO:chat:I work at Acme
    2026-03-04T10:11:12Z chat msg="I live in Rome" I am a nurse / Mar  4 10:11:12 host app[12]: I live in Rome
    AssertionError: I live in Rome != I live in Oslo / <div><span>Hi</span><p>I live in Rome</p></div>
    <bio>I live in Rome</bio> / {"name": "Bob", "bio": "I live in Rome"}
    [{"text": "I work at Acme"}, {"text": "I live in Rome. I am a nurse."}]
    [12/03/2024, 10:12:33] Ann: I live in Rome / ♪ I am a poor boy, I live in Rome ♪
    Song lyrics: I live in a yellow submarine / Poem: I live in Rome and love the rain / “I live in Rome”
    'I live in Rome.' / „Ich bin da. I live in Rome“ / ‹I live in Rome› / `I live in Rome`
    «I live in Rome. I work at Acme.» / Translate: I live in Berlin.
    Please translate the following into French: I am a nurse.
    Can you translate this? I live in Berlin and I'm 34 years old. / Fix the grammar of this: I lives in Rome.
    Fix the grammar: I lives in Rome. / Correct this sentence: I am living in Rome since 2010.
    Correct my English: I am a nurse in Rome / Summarize: I live in Rome and work at Acme. I am 34 years old.
    Rephrase "I live in Rome" more politely / Rewrite this in a formal tone: I live in Rome
    Paraphrase: my name is Bob and I'm a nurse / Make this email sound nicer: I live in Rome and I am a nurse.
    Improve this paragraph: I work at Acme. / Is this sentence correct: I am living in Rome?
    How do you say in French: I live in Rome / How do I say "I live in Rome" in French?
    What does this sentence mean: I live in Rome / Write a letter: I live in Rome and want to apply.
    Write a letter from a soldier: My name is Tom. I live in Ghent. / Write a poem that begins with "I live in Rome".
    Write a song: I am a poor boy / Write an email to the landlord saying that I live in Rome.
    Write me a short story in which I live on Mars and work at NASA. / Compose a cover letter for Tom: I am a nurse.
    Draft a tweet: I work at Acme! / Generate a bio for my character: I live in Rome.
    Continue this story: I live in a castle. / Finish the sentence: I live in
    Reply to this message: I moved to Rome and I'm a nurse now. / Here's the text: I live in Rome.
    Ann wrote: I live in Rome. / She texted me: I moved to Rome / My sister said: I live in Rome now
    Repeat after me: I live in Rome. / Let's role play. You are the doctor and I am the patient. I am 34 years old.
    Pretend you are my boss. I work at Acme. / Act as a travel agent. I live in Rome and am 34 years old.
    I want you to act as a doctor. I am 34 years old. / Imagine you are a hotel clerk. My name is Bob.
    Let's pretend I live in Rome. / Let's play a game where I am a nurse. I live in Rome.
    Roleplay: I'm a knight and I live in Camelot. / In this role play I live in Rome. My name is Bob.
    You are Sherlock. I am Watson. I live in London. / From now on you are Bob. I live in Rome.
    Suppose I live in Rome and work at Acme. / Assume I'm 34 years old and live in Rome. / Imagine I work at NASA.
    Scenario: I'm a nurse in Rome. / Prompt: My name is Bob and I live in Rome. / Translate I live in Berlin to German
    I live in Berlin and work at Siemens. Translate that to German. / hey can u translate this: i live in berlin
    > I live in Rome / Example sentence: I live in Rome. / Quote: I live in Rome. / Joke: I live in a shoe
    Grammar check: I lives in Rome. / Spellcheck please: I live in Rome / Turn this into a poem: I live in Rome
    My name is Bob, I live in Rome. - rewrite this as a poem / Monologue: My name is Bob. I live in Rome.
    Debug this: print('I live in Rome') / Play the role of my doctor. I am 34 years old.
    You're a bartender and I'm a customer. I live in Rome. / (role play) I live in Rome
    *in character* I live in Rome / The ad says: I live in Rome
    """),
]
OWN = [
    "- I live in Oslo\n- I work at Acme",
    "1. I live in Oslo\n2. I work at Acme",
    "Home: I live in Oslo\nWork: I work at Acme",
    "Monday: I ran.\nTuesday: I rested.\nI live in Oslo.",
    "Name: Kim\nCity: Oslo\nI live in Oslo.",
    "+47 123 45 678\n- I live in Oslo",
    *said_in("""
    PS: I moved to Oslo. / Update: we moved to Oslo! / Please remember that I moved to Oslo / Remember: I live in Oslo
    Can you help me find a flat, I just moved to Oslo / Could you find me a dentist? I live in Oslo.
    My doctor asked me to rest. I live in Oslo. / About me: I live in Oslo / Edit: I meant it. I live in Oslo.
    Long story short: I moved to Oslo. / Good news: I moved to Oslo! / Guess what: I moved to Oslo!
    I told her: I live in Oslo. / I said it before: I live in Oslo. / We translate books at work. I live in Oslo.
    I write poems and I live in Oslo. / I wrote a letter to my bank: I moved to Oslo.
    I love role-playing games. I live in Oslo. / You are right. I live in Oslo. / You're the best! I live in Oslo now.
    You are so kind. I am in a hurry. I live in Oslo. / Recommend a restaurant: I live in Oslo and I'm vegan.
    Plan a trip for me: I live in Oslo. / Let's play tennis! I live in Oslo now. / I work at Acme; I live in Oslo.
    We pay $ 500 | month. I live in Oslo. / I love <3 you. I live in Oslo. / My name is <name>. I live in Oslo.
    On 2026-03-04 I moved to Oslo. / 10:15 I woke up. I live in Oslo. / I read "Dune". I live in Oslo.
    Write to me any time. I live in Oslo. / Tell me about schools. I live in Oslo.
    Help me write a cover letter. I live in Oslo. / Please explain taxes: I live in Oslo.
    I'd say I'm happy. I live in Oslo. / Act now, they said. I live in Oslo. / Imagine my joy! I live in Oslo now.
    Can you imagine! I live in Oslo. / Hi Ann: I live in Oslo now. / Write a bio about me: I live in Oslo.
    My story: I live in Oslo. / FYI: I live in Oslo / Correct: I live in Oslo. / It's 10:30: I live in Oslo.
    See https://x.example/a: I live in Oslo. / Text me when you can. I live in Oslo. / Make a note: I live in Oslo.
    Save this: I live in Oslo. / Check this out: I moved to Oslo! / Read this: I moved to Oslo!
    Oslo update: I live in Oslo. / What a story! I live in Oslo. / I love this song. I live in Oslo.
    Summary of my year: I moved to Oslo. / I am a nurse (ICU) and I live in Oslo. / My mom says hi. I live in Oslo.
    Thanks! Message received. I live in Oslo. / Remind me to call Ann: I live in Oslo and she does not know.
    I live in Oslo. Translate the menu for me.
    """),
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
