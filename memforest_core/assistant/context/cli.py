"""The command of what goes into the prompt of one chat turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.assistant.conversation_window.cli import LATEST, left_out
from memforest_core.cli.toolkit.method_commands import OWNER, Command, given_argument, given_option
from memforest_core.cli.toolkit.output import console, print_degraded, print_lines
from memforest_core.domain.turns import LATEST_SESSION

if TYPE_CHECKING:
    from memforest_core.assistant.context.records import Context


def _show_context(made: Context) -> None:
    out = console()
    print_lines(made.text)
    print_degraded(made.degraded)
    used = ", ".join(f"{section.value} {tokens}" for section, tokens in made.section_tokens.items()) or "nothing"
    missing = left_out((each.section.value, each.why.value) for each in made.left_out)
    out.print(f"{made.tokens} of {made.max_tokens} tokens: {used}{missing}.", style="dim")


OF_QUESTION = "The question to answer. Default: the user's last turn."
QUESTION = given_argument("question", OF_QUESTION, "[QUESTION]", str | None, None)
OF_SESSION = given_option("session", LATEST, str, LATEST_SESSION)
SPEAKER = given_option("speaker", "Speaker whose profile and words are used.")
CHANNEL = given_option("channel", "Only sessions of this channel.")
CONTEXT_TOKENS = given_option(
    "max_tokens", "Maximum tokens of the whole context. Default: the setting context.max_tokens.", int | None
)
COMMANDS = (
    Command(
        "context",
        "Print the context for the prompt of one chat turn: profile, days, evidence and the running session.",
        _show_context,
        (OWNER, QUESTION, OF_SESSION, SPEAKER, CHANNEL, CONTEXT_TOKENS),
    ).made(),
)
