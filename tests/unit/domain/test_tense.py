"""Whether the clause around a date is about the past or about the future."""

from __future__ import annotations

import pytest

from memforest_core.domain.dates import looks_ahead


@pytest.mark.parametrize(
    ("sentence", "phrase", "ahead"),
    [
        ("I start at Norvik on 9 March.", "on 9 March", True),
        ("I started at Norvik on 9 March.", "on 9 March", False),
        ("The rent is due on the 3rd.", "on the 3rd", True),
        ("due on the 3rd", "on the 3rd", True),
        ("We moved on the 8th.", "on the 8th", False),
        ("I'm in Berlin from June.", "from June", True),
        ("We lived there from June.", "from June", False),
        ("I'll be away from June.", "from June", True),
        ("My exam is on Friday.", "on Friday", True),
        ("I fly to Rome on Sunday.", "on Sunday", True),
        ("I flew to Rome on Sunday.", "on Sunday", False),
        ("We're getting married in June.", "in June", True),
        ("We got married in June.", "in June", False),
        ("I'm booked on Friday.", "on Friday", True),
        ("The party was on Friday.", "on Friday", False),
        ("I quit my job on Monday and start at Acme on the 9th.", "on Monday", False),
        ("I quit my job on Monday and start at Acme on the 9th.", "on the 9th", True),
        ("Lease ends in April.", "in April", True),
        ("I have an appointment on the 12th.", "on the 12th", True),
        ("I've been ill since Friday.", "since Friday", False),
        ("The shop opens on the 5th.", "on the 5th", True),
        ("Anna arrives on Friday.", "on Friday", True),
        ("Anna arrived on Friday.", "on Friday", False),
        ("the course runs from May", "from May", True),
        ("I was supposed to leave on Friday.", "on Friday", False),
        ("I have visited them in May.", "in May", False),
        ("Dinner with Bob on Friday", "on Friday", None),
        ("My contract expires in September.", "in September", True),
        ("They hired me in April.", "in April", False),
        ("I ran it in two days.", "in two days", False),
        ("I leave in two days.", "in two days", True),
        ("See you on Friday!", "on Friday", True),
        ("She gave birth on the 8th.", "on the 8th", False),
        ("We'd moved in June.", "in June", False),
        ("I read it on Friday.", "on Friday", None),
        ("I cut my hair on Friday.", "on Friday", None),
        ("I'm seeing the dentist on the 8th.", "on the 8th", True),
        ("The deadline is the 15th of June.", "the 15th of June", True),
    ],
)
def test_the_verb_of_its_clause_says_on_which_side_a_date_lies(sentence: str, phrase: str, ahead: bool | None) -> None:
    assert looks_ahead(sentence, phrase) is ahead
