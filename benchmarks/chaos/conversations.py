"""Short conversations, each with a detail that no other one has; the same seed gives the same ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.domain.chat_messages import TurnInput

SESSIONS_PER_OWNER = 10
FIRST_DAY = 1_700_000_000
"""Unix seconds of the first conversation; each is a day after the one before."""

_POSITIONS = ("Oslo", "Lima", "Cairo", "Quito", "Perth", "Turin", "Davis", "Kyoto", "Porto", "Gdansk")
_FRIENDS = ("Nina", "Omar", "Priya", "Tomas", "Keiko", "Lena", "Amir", "Rosa", "Ivan", "Mei")
_PETS = ("parrot", "tabby cat", "tortoise", "greyhound", "hamster", "pony", "ferret", "goldfish")
_HOBBIES = ("pottery", "fencing", "beekeeping", "archery", "juggling", "rowing", "origami", "chess")
_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session to enqueue, and a question about it for afterwards."""

    owner: str
    session_id: str
    turns: tuple[TurnInput, ...]
    question: str
    detail: str
    """A name that only this conversation has: what recall must find."""


def _name(rng: random.Random, taken: set[str]) -> str:
    """A pronounceable name that was not used before."""
    while True:
        name = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(3)).capitalize()
        if name not in taken:
            taken.add(name)
            return name


def conversations(count: int, seed: int, prefix: str = "owner") -> list[Conversation]:
    """``count`` conversations of four turns: two cells, one window, about three facts each."""
    rng = random.Random(f"{seed}/{prefix}")
    taken: set[str] = set()
    made = []
    for number in range(count):
        pet_name, friend, pet = _name(rng, taken), rng.choice(_FRIENDS), rng.choice(_PETS)
        said = (
            f"I moved to {rng.choice(_POSITIONS)} with {number + 2} boxes, and I started {rng.choice(_HOBBIES)}.",
            "That sounds like a busy week.",
            f"My friend {friend} adopted a {pet} called {pet_name}.",
            "How lovely.",
        )
        turns: tuple[TurnInput, ...] = tuple(
            {
                "role": "user" if place % 2 == 0 else "assistant",
                "content": text,
                "timestamp": FIRST_DAY + number * 86_400 + place * 60,
            }
            for place, text in enumerate(said)
        )
        made.append(
            Conversation(
                owner=f"{prefix}-{number // SESSIONS_PER_OWNER}",
                session_id=f"{prefix}-session-{number}",
                turns=turns,
                question=f"Who adopted the {pet} called {pet_name}?",
                detail=pet_name,
            )
        )
    return made


def owners(made: Sequence[Conversation]) -> list[str]:
    """Their owners, each once, in order."""
    return list(dict.fromkeys(one.owner for one in made))
