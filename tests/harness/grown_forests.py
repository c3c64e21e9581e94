"""Three small forests that share people, things and sentences: what every killed operation begins from."""

from __future__ import annotations

from tests.harness.sayings import said
from tests.harness.stack import Stack

DAY_S = 86_400
MONDAY = 1_700_000_000

BOB, PHONE, ALICE = "bob", "bob-phone", "alice"
"""Owners: Bob at his desk, Bob on his phone (other sessions, some of the same), and Alice."""

HOME = [
    turn | {"id": f"home-{place}"}
    for place, turn in enumerate(
        said(
            "I live in Davis.",
            "I adopted a dog named Rex.",
            "I paid 40 dollars for a brass lamp.",
            "I love hiking.",
            start=MONDAY,
        )
    )
]
KYOTO = said(
    "I booked a hotel in Kyoto.",
    "The garden in Kyoto was quiet.",
    "I bought two vases in Kyoto.",
    "My sister Clara works at the lab.",
    start=MONDAY + 7 * DAY_S,
)
LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(1, 9)], start=MONDAY + 40 * DAY_S)
DINNER = [
    *said("I cooked dinner for Dana.", start=MONDAY + 60 * DAY_S),
    *said("I moved to Miami.", "I sold my red bike.", start=MONDAY + 60 * DAY_S + 60, name="Dana"),
    *said("I love hiking.", start=MONDAY + 60 * DAY_S + 300),
]
PHONE_KYOTO = said("I flew home from Kyoto with two vases.", "I love hiking.", start=MONDAY + 9 * DAY_S)
OTHER_DINNER = said("I cooked dinner for nobody.", "I bought a blue bike.", start=MONDAY + 60 * DAY_S + 30)
CATS = said("I adopted a cat named Mia.", "I live in Leeds.", "I love hiking.", start=MONDAY + 3 * DAY_S, name="Alice")
NEW_SESSION = "zoo"
ZOO = said(
    "I saw a pelican in Tucson.",
    "The keeper is called Wilhelmina.",
    "I paid 90 dollars for a zeppelin ride.",
    "I moved to Tucson.",
    "I love hiking.",
    start=MONDAY + 80 * DAY_S,
)
"""What Bob says later, of which some words are nowhere else."""


WINDOWED = (
    """INSERT INTO memforest.session_window
              (tenant_id, session_id, forest_id, turns, text, source, model, input_hash, version, updated_at)
       SELECT s.tenant_id, s.session_id, s.forest_id, 2, s.external_id, 'extractive', '', CAST('' AS bytea),
              s.session_id, s.started_at
         FROM memforest.session s JOIN memforest.forest f USING (tenant_id, forest_id)
        WHERE f.owner = :owner AND f.state = 'live'""",
    """INSERT INTO memforest.window_item (tenant_id, session_id, item_id, forest_id, place, fact_id, put_at)
       SELECT s.tenant_id, s.session_id, x.fact_id, s.forest_id, row_number() OVER (ORDER BY x.key_time, x.fact_id),
              x.fact_id, x.mentioned_at
         FROM memforest.session s JOIN memforest.forest f USING (tenant_id, forest_id)
         JOIN memforest.fact x USING (tenant_id, forest_id)
        WHERE f.owner = :owner AND f.state = 'live' AND s.external_id = 'dinner'""",
)
"""Give each session's window a text as old as the session, and that of "dinner" an item for each fact."""


def grow(running: Stack) -> None:
    """All three, at rest; some facts are pinned, and some were recalled."""
    enqueue = running.memory.client.enqueue
    enqueue(BOB, "home", HOME)
    enqueue(BOB, "kyoto", KYOTO)
    enqueue(BOB, "lamps", LAMPS)
    enqueue(BOB, "dinner", DINNER)
    # The same words under the same id, more of a session, another one of the same name, and one of its own.
    enqueue(PHONE, "home", HOME)
    enqueue(PHONE, "kyoto", KYOTO[:2])
    enqueue(PHONE, "dinner", OTHER_DINNER)
    enqueue(PHONE, "flight", PHONE_KYOTO)
    enqueue(ALICE, "cats", CATS)
    running.drive()
    running.execute("UPDATE memforest.fact SET pinned = true WHERE text LIKE '%two vases%'")
    running.execute(
        """INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits)
           SELECT tenant_id, fact_id, forest_id, 3 FROM memforest.fact WHERE text LIKE '%hiking%'"""
    )
    # Statistics as a memory has that did not grow within a second.
    running.execute("ANALYZE")
