"""A chat on the console with a memory that outlives it.

    python examples/chatbot.py --data chat-memory                        # offline: no key, no network
    python examples/chatbot.py --data chat-memory --model openai/gpt-4o-mini

Every message goes through ``memory.context``: who you are, today, what was said about the question before, and the
running conversation. Offline the "model" only repeats what it remembers. What you write is remembered in the
background; start it again, and it knows. ``/profile``, ``/context`` and ``/quit`` are commands; "remember that ..."
and "forget that ..." are understood.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from memforest_core import Context, IntentKind, MemForest

SYSTEM = "You are a friendly assistant with a long memory. Answer in a few sentences."


def offline_reply(context: Context) -> str:
    """What is remembered about the question, instead of a model's answer."""
    remembered = [part.text for part in (*context.section("evidence"), *context.section("profile"))]
    return f"I remember: {' | '.join(remembered[:4])}" if remembered else "Tell me more."


def model_reply(model: str, context: Context, text: str) -> str:
    """A chat model's answer: any name that litellm knows; keys come from the environment."""
    import litellm

    messages = [{"role": "system", "content": SYSTEM}, *context.messages(), {"role": "user", "content": text}]
    reply = litellm.completion(model=model, messages=messages)
    return str(reply.choices[0].message.content or "")


def answered(memory: MemForest, owner: str, text: str, model: str | None) -> str:
    """One turn of the chat: commands in words are done, everything else is talk."""
    if text == "/profile":
        return memory.profile(owner).text or "I know nothing about you yet."
    if text == "/context":
        return memory.context(owner).text or "There is nothing yet."
    intent = memory.intent(text)
    if intent.kind is IntentKind.REMEMBER and intent.object:
        memory.remember(owner, intent.object, wait="facts")
        return "I will."
    if intent.kind is IntentKind.FORGET and intent.object:
        gone = memory.forget(owner, intent.object, wait=True)
        return f"Forgotten: {' '.join(fact.text for fact in gone.facts)}" if gone.found else "I know nothing of that."
    if intent.kind is IntentKind.ABOUT_ME:
        return memory.profile(owner).text or "I know nothing about you yet."
    context = memory.context(owner, question=text)
    reply = offline_reply(context) if model is None else model_reply(model, context, text)
    memory.append(owner, None, {"role": "user", "name": owner, "content": text})
    memory.append(owner, None, {"role": "assistant", "content": reply})
    return reply


def talk(memory: MemForest, owner: str, model: str | None, lines: Iterable[str]) -> None:
    """Answer line by line until there are no more, or ``/quit``."""
    for line in lines:
        text = line.strip()
        if text == "/quit":
            break
        if text:
            print(f"> {text}" if not sys.stdin.isatty() else "", answered(memory, owner, text, model), sep="\n")


def main() -> None:
    """Run from the command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--data", type=Path, default=Path("chat-memory"), help="directory of the memory")
    options.add_argument("--owner", default="Alice", help="who talks")
    options.add_argument("--model", help="a chat model by its litellm name; without one it answers offline")
    chosen = options.parse_args()
    with MemForest.embedded(chosen.data) as memory:
        try:
            talk(memory, chosen.owner, chosen.model, sys.stdin)
        finally:
            if memory.session_current(chosen.owner) is not None:
                memory.session_close(chosen.owner)
                memory.flush(chosen.owner)


if __name__ == "__main__":
    main()
