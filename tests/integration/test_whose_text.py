"""Text that is not its sender's own, on the real stack without a model: no state of theirs, and found by its words."""

from __future__ import annotations

import pytest

from tests.harness.stack import Stack

START = 1_714_000_000
SENT = {
    "```python\nname = 'Bob'  # I live in Rome near the aqueduct\n```": "aqueduct",
    "Ann: I live in Lisbon and keep pigeons\nBob: I work at Initech": "pigeons",
    "Translate to German: I live in Berlin and work at Siemens as a glazier.": "glazier",
    "Pretend I'm a vet and live in Ghent with a walrus.": "walrus",
    "«I live in Madrid above the bakery»": "bakery",
    "| who | bio |\n|---|---|\n| Tom | I live in Turin, I am a juggler |": "juggler",
    "Lyrics: I am a poor boy, I live in a yellow submarine": "submarine",
}


def tell(running: Stack) -> None:
    for day, text in enumerate(SENT):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * 86_400}
        running.memory.client.enqueue("kim", f"s{day}", [turn], display_name="Kim")


def test_sent_text_states_nothing_of_its_sender(rested: Stack) -> None:
    known = rested.memory.profile("kim")
    assert (known.states, known.text) == ((), "")
    assert rested.memory.timeline("kim").states == ()


@pytest.mark.parametrize("word", SENT.values())
def test_sent_text_is_recalled_by_its_words(rested: Stack, word: str) -> None:
    first = rested.memory.recall("kim", f"What was it about the {word}?").evidence[0]
    assert word in first.text
