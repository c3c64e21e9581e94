"""Turns as a caller sends them."""

from __future__ import annotations

from memforest_core.domain.chat_messages import TurnInput


def said(*sentences: str, start: int = 1_700_000_000, name: str = "Bob", step: int = 60) -> list[TurnInput]:
    """User turns as a caller sends them, ``step`` seconds after the one before."""
    return [
        {"role": "user", "name": name, "speaker_id": name.lower(), "content": text, "timestamp": start + step * number}
        for number, text in enumerate(sentences)
    ]
