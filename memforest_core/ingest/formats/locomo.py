"""LoCoMo's conversations (``locomo10.json``): two people, dated sessions, turns with dialogue ids.

The format's facts: https://github.com/snap-research/locomo (README, "Data"): a list of samples with ``sample_id`` and
``conversation``, which holds ``speaker_a``, ``speaker_b`` and for each n ``session_<n>`` and
``session_<n>_date_time``; a turn has ``speaker``, ``dia_id``, ``text``, and for a shared picture ``img_url`` and
``blip_caption``. Dates name no zone; the file has dates of sessions that it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.items import (
    Converted,
    Item,
    Refused,
    Value,
    Wordless,
    bad_item,
    each,
    list_of,
    mapping_of,
    moment_of,
    name_of,
    turns_of,
)

_SESSION = re.compile(r"session_(\d+)")
_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


def convert(values: Iterable[Value | Refused], owner: str | None) -> Iterator[Item]:
    """A session for each of a sample's; the sample is the owner, unless one is given for all of them."""
    return each(values, lambda value: _sample(value, owner))


def _sample(value: Value, owner: str | None) -> Iterator[Item]:
    sample = mapping_of(value.content, "A sample")
    conversation = mapping_of(sample.get("conversation"), "The sample's conversation")
    name = name_of(sample.get("sample_id"))
    if name is None:
        if owner is None:
            raise bad_item("Add a sample_id to the sample, or give --owner.")
        name = f"sample-{value.position}"
    found = [found for key in conversation if (found := _SESSION.fullmatch(key))]
    for key in (one[0] for one in sorted(found, key=lambda one: int(one[1]))):
        # Samples of one owner have sessions of the same names.
        session = key if owner is None else f"{name}/{key}"
        try:
            yield _session(value.position, owner or name, session, key, conversation)
        except InvalidInput as error:
            yield Refused(value.position, error, session)


def _session(position: int, owner: str, session: str, key: str, conversation: Mapping[str, object]) -> Item:
    turns: list[TurnInput] = []
    for number, raw in enumerate(list_of(conversation[key] or [], key), start=1):
        turns += _turn(key, number, raw)
    if not turns:
        return Wordless(position, session)
    written = conversation.get(f"{key}_date_time")
    if not written:
        raise bad_item(f"{key} has no {key}_date_time.")
    return Converted(position, owner, session, turns, moment_of(written, _TIMES, "1:56 pm on 8 May, 2023").isoformat())


def _turn(key: str, number: int, raw: object) -> list[TurnInput]:
    where = f"Turn {number} of {key}"
    turn = mapping_of(raw, where)
    speaker = name_of(turn.get("speaker"))
    if speaker is None:
        raise bad_item(f"{where} has no speaker.")
    text, caption = str(turn.get("text") or "").strip(), str(turn.get("blip_caption") or "").strip()
    if caption:
        text = f"{text} [shares {caption}]".strip()
    return turns_of(
        "user",
        text,
        id=name_of(turn.get("dia_id")) or f"D{key.removeprefix('session_')}:{number}",
        metadata={name: turn[name] for name in ("img_url", "blip_caption") if turn.get(name)},
        name=speaker,
    )
