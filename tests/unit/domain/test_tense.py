"""Whether the clause around a date is about the past or about the future."""

from __future__ import annotations

import pytest

from memforest_core.domain.dates import looks_ahead
from tests.harness.tables import cases

SIDES = {
    True: """
I start at Norvik on 9 March. => on 9 March | The rent is due on the 3rd. => on the 3rd
due on the 3rd => on the 3rd | I'm in Berlin from June. => from June | I'll be away from June. => from June
My exam is on Friday. => on Friday | I fly to Rome on Sunday. => on Sunday
We're getting married in June. => in June | I'm booked on Friday. => on Friday
I quit my job on Monday and start at Acme on the 9th. => on the 9th | Lease ends in April. => in April
I have an appointment on the 12th. => on the 12th | The shop opens on the 5th. => on the 5th
Anna arrives on Friday. => on Friday | the course runs from May => from May
My contract expires in September. => in September | I leave in two days. => in two days
See you on Friday! => on Friday | I'm seeing the dentist on the 8th. => on the 8th
The deadline is the 15th of June. => the 15th of June
""",
    False: """
I started at Norvik on 9 March. => on 9 March | We moved on the 8th. => on the 8th
We lived there from June. => from June | I flew to Rome on Sunday. => on Sunday
We got married in June. => in June | The party was on Friday. => on Friday
I quit my job on Monday and start at Acme on the 9th. => on Monday | I've been ill since Friday. => since Friday
Anna arrived on Friday. => on Friday | I was supposed to leave on Friday. => on Friday
I have visited them in May. => in May | They hired me in April. => in April
I ran it in two days. => in two days | She gave birth on the 8th. => on the 8th | We'd moved in June. => in June
""",
    None: """
Dinner with Bob on Friday => on Friday | I read it on Friday. => on Friday
I cut my hair on Friday. => on Friday
""",
}


@pytest.mark.parametrize(
    ("sentence", "phrase", "ahead"), [(*row, ahead) for ahead, table in SIDES.items() for row in cases(table)]
)
def test_the_verb_of_its_clause_says_on_which_side_a_date_lies(sentence: str, phrase: str, ahead: bool | None) -> None:
    assert looks_ahead(sentence, phrase) is ahead
