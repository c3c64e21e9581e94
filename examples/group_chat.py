"""Five members of a chat server over ten days, known by nicknames: what a bot remembers of each, and its prompt.

    python examples/group_chat.py                      # the ten days below
    python examples/group_chat.py --turns chat.jsonl   # your own: {"day": 0, "channel": "...", "id": "...", ...} a line

The server is the owner, each channel and day a session, and a speaker has one id under all names: what others say of
"gruz" or <@111> is filed under whom they mean. What begins with "Bot" is a command in words: remember, forget, or what
is known of somebody.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memforest_core import Intent, MemForest, TurnInput

OWNER = "climbing-club"
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
DAYS = 10


@dataclass(frozen=True)
class Said:
    """One message. ``day`` counts from 0; the last one is today."""

    day: int
    channel: str
    id: str
    name: str
    text: str


SAID = (
    Said(0, "general", "111", "gruz", "I live in Lyon."),
    Said(0, "general", "222", "Florent", "I work at a bakery in Grenoble."),
    Said(1, "general", "333", "mira", "I have a dog named Pixel."),
    Said(1, "general", "444", "Anneke", "I live in Utrecht."),
    Said(2, "trips", "222", "Florent", "I booked a hut on Mont Aiguille for six people."),
    Said(2, "trips", "333", "mira", "<@111> is a carpenter."),
    Said(3, "trips", "111", "gruz", "I bought a green rope of 60 meters."),
    Said(4, "general", "333", "mira", "I love climbing in the rain."),
    Said(4, "general", "555", "Tolu", "I was afraid on the ridge, but the view was worth it."),
    Said(5, "trips", "333", "mira", "I lent my helmet to Florent."),
    Said(6, "general", "111", "gruzilkin", "I moved to Annecy."),
    Said(6, "general", "444", "Anneke", "I baked waffles for Tolu and her sister."),
    Said(7, "general", "333", "mira", "Bot remember that gruzilkin is Sergey"),
    Said(7, "general", "222", "Florent", "Bot, remember this about Tolu: she is allergic to peanuts"),
    Said(8, "trips", "222", "Florent", "I sprained my ankle on the stairs of the bakery."),
    Said(8, "trips", "222", "Florent", "gruz is a patient friend."),
    Said(8, "trips", "555", "Tolu", "I carried the water up to the hut."),
    Said(9, "trips", "111", "gruzilkin", "I packed the green rope for Mont Aiguille."),
    Said(9, "trips", "333", "mira", "I made sandwiches for everybody."),
    Said(9, "trips", "444", "Anneke", "Bot, what do you know about Sergey?"),
    Said(9, "trips", "444", "Anneke", "Bot forget that I live in Utrecht"),
)


def read(path: Path) -> list[Said]:
    """Messages from a file, one JSON object a line."""
    return [Said(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def tell(memory: MemForest, said: Iterable[Said]) -> None:
    """Remember all messages, as a bot would see them come in, and do what those to the bot request."""
    for number, each in enumerate(said):
        intent = memory.intent(each.text, OWNER, speaker=each.id, addressees=["bot"])
        at = NOW - timedelta(days=DAYS - 1 - each.day) + timedelta(seconds=number)
        if intent.kind != "none":
            memory.flush(OWNER)
            print(f"{each.name}: {each.text}\n  {done(memory, intent, at)}\n")
            continue
        turn: TurnInput = {
            "role": "user",
            "speaker_id": each.id,
            "name": each.name,
            "content": each.text,
            "timestamp": at,
        }
        memory.append(OWNER, f"{each.channel}-{each.day}", turn, channel=each.channel)


def done(memory: MemForest, intent: Intent, at: datetime) -> str:
    """Do what a command requests; what the bot says then."""
    if intent.kind == "remember":
        memory.remember(OWNER, intent.object, intent.about, alias=intent.alias, at=at)
        return f"I keep in mind: {intent.object}"
    if intent.kind == "forget":
        forgotten = memory.forget(OWNER, intent.object, about=intent.about, wait=True)
        return f"Forgotten: {', '.join(fact.text for fact in forgotten.facts) or 'nothing'}"
    if intent.kind == "recall":
        return memory.recall(OWNER, intent.object, k=1).text()
    return memory.profile(OWNER, intent.about).text or "Nothing is known."


def report(memory: MemForest, said: Sequence[Said]) -> None:
    """What is known of each member, their week, and the prompt for the last message of each channel."""
    memory.flush(OWNER)
    for id_ in dict.fromkeys(each.id for each in said):
        profile, week = memory.profile(OWNER, id_), memory.week(OWNER, id_)
        print(f"# {profile.about}\n{profile.text or '(nothing)'}\nThe week: {week.text or '(nothing)'}\n")
    for channel in dict.fromkeys(each.channel for each in said):
        last = [each for each in said if each.channel == channel][-1]
        session = f"{channel}-{last.day}"
        context = memory.context(OWNER, session, speaker=last.id, channel=channel, max_tokens=600)
        print(f"# Prompt for {last.name} in {channel}: {context.tokens} tokens\n{context.text}\n")
    everybody = memory.context(OWNER, question="Who has the helmet, and who the rope?", max_tokens=600)
    print(f"# Who has the helmet, and who the rope?\n{everybody.text}")


def main() -> None:
    """Run from the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--data", type=Path, help="directory of the memory; a temporary one unless given")
    options.add_argument("--turns", type=Path, help="messages as JSON lines; the ten days of this file unless given")
    chosen = options.parse_args()
    said = SAID if chosen.turns is None else read(chosen.turns)
    with (
        tempfile.TemporaryDirectory(prefix="memforest-group-", ignore_cleanup_errors=True) as place,
        MemForest.embedded(chosen.data or Path(place) / "data") as memory,
    ):
        tell(memory, said)
        report(memory, said)
        memory.close(summarize=True)


if __name__ == "__main__":
    main()
