"""Periods of one person's life: sessions that tell of home, work, friends, health, travel and so on, seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memforest_core.domain.chat_messages import TurnInput

SPEAKER = "Robin"
TURNS = 20
"""Of a session; each states one or two things."""
FIRST_DAY = 1_600_000_000
DAY = 86_400

SAID = (
    "I {moved} to a {size} flat near the {place} in {town}.",
    "The landlord raised our rent to {number} euros.",
    "We painted the {room} {colour}.",
    "I bought a {colour} {thing} for {number} euros.",
    "I sold my {colour} {thing} to {friend}.",
    "I lost my {thing} on the way to the {place}.",
    "I started a new job as a {job} at the {place}.",
    "My boss {friend} asked for a report on the {subject}.",
    "Our team finished the plan for the {subject} after {number} days.",
    "{friend} adopted a {animal} called {pet}.",
    "My {animal} {pet} had to see the vet about a paw.",
    "My {kin} {friend} works as a {job} in {town}.",
    "I met {friend} at the {place} and we talked about {subject}.",
    "{friend} and I had a quarrel about the {subject}.",
    "I cooked {dish} for {friend} and {other}.",
    "I am allergic to {food}.",
    "I don't like {food} any more.",
    "My doctor told me to walk {number} minutes a day.",
    "My {limb} hurts since the {sport} match.",
    "I ran {number} kilometres along the {place}.",
    "I play the {instrument} in a band with {friend}.",
    "I learned a new song on the {instrument}.",
    "I read a book about {subject} and gave it to {other}.",
    "I booked a train to {town} for next month.",
    "I spent {number} days in {town} with {friend}.",
    "I planted {food} beside the {place}.",
    "I paid {number} euros to repair the {thing}.",
    "I began a course in {subject} at the {place}.",
    "I passed my test in {subject} with {number} points.",
    "I dreamt of opening a {dish} stall in {town}.",
)
WORDS: Mapping[str, Sequence[str]] = {
    "moved": ("moved",),
    "size": ("small", "bright", "dark", "narrow", "large"),
    "place": ("harbour", "library", "market", "old mill", "station", "park", "bakery", "museum", "river", "school"),
    "town": ("Ghent", "Porto", "Turku", "Graz", "Cork", "Lyon", "Bergen", "Split", "Brno", "Malmo", "Pisa", "Basel"),
    "room": ("kitchen", "hall", "bedroom", "bathroom", "balcony"),
    "colour": ("red", "green", "yellow", "grey", "blue", "black", "white", "orange"),
    "thing": ("bicycle", "tent", "lamp", "umbrella", "camera", "sofa", "kayak", "radio", "coat", "suitcase", "desk"),
    "friend": ("Hana", "Milan", "Aisha", "Jonas", "Lucia", "Pavel", "Greta", "Tomas", "Nadia", "Elin", "Omar", "Ines"),
    "other": ("Yusuf", "Clara", "Bruno", "Mette", "Farid", "Olga"),
    "kin": ("sister", "brother", "aunt", "cousin", "uncle"),
    "job": ("carpenter", "nurse", "teacher", "cook", "gardener", "printer", "translator", "welder", "clerk"),
    "subject": ("bridges", "tax", "Portuguese", "bees", "first aid", "maps", "pottery", "chess", "sewing"),
    "animal": ("cat", "tortoise", "parrot", "greyhound", "pony", "ferret"),
    "pet": ("Zorba", "Pixel", "Mango", "Rufus", "Biscuit", "Olive", "Tango", "Pepper", "Nimbus"),
    "dish": ("lentil soup", "pancake", "curry", "risotto", "noodle", "goulash"),
    "food": ("walnuts", "tomatoes", "beans", "mushrooms", "shrimps", "onions", "radishes"),
    "limb": ("knee", "shoulder", "ankle", "back", "wrist"),
    "sport": ("tennis", "football", "volleyball", "hockey"),
    "instrument": ("cello", "clarinet", "guitar", "piano", "trumpet"),
}
OWN = 0.5
"""Share of each list of words that one period knows."""
OWN_SENTENCES = 18


@dataclass(frozen=True, slots=True)
class Described:
    """One session to enqueue."""

    session_id: str
    turns: tuple[TurnInput, ...]


def period(number: int, sessions: int, seed: int) -> Iterator[Described]:
    """The sessions of one period, one a day: some of the sentences and words there are, in ever new combinations."""
    rng = random.Random(f"{seed}/{number}")
    sentences = rng.sample(SAID, OWN_SENTENCES)
    words = {name: rng.sample(list(all_), max(1, round(len(all_) * OWN))) for name, all_ in WORDS.items()}
    for session in range(sessions):
        start = FIRST_DAY + (number * sessions + session) * DAY
        yield Described(
            f"period-{number}-session-{session}",
            tuple(
                {
                    "role": "user",
                    "name": SPEAKER,
                    "speaker_id": SPEAKER,
                    "content": _sentence(rng, sentences, words),
                    "timestamp": start + turn * 60,
                }
                for turn in range(TURNS)
            ),
        )


def _sentence(rng: random.Random, sentences: Sequence[str], words: Mapping[str, Sequence[str]]) -> str:
    chosen = {name: rng.choice(list(known)) for name, known in words.items()}
    return rng.choice(list(sentences)).format(number=rng.randint(3, 990), **chosen)
