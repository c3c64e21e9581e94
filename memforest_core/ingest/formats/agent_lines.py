"""What coding agents write into the files of their sessions under the name of their user, and what nobody says."""

from __future__ import annotations

import re
from collections.abc import Mapping

_OWN_TAGS = (
    r"<(local-command[\w-]*|command-[\w-]+|system-reminder|bash-[\w-]+|task-notification|user-prompt-submit-hook"
    r"|environment_context|user_instructions|permissions instructions|turn_aborted|INSTRUCTIONS|ide_\w+|user_action"
    r"|collaboration_mode|skills?(?:_instructions)?)>"
)
_OWN_BLOCKS = re.compile(_OWN_TAGS + r".*?</\1>\s*", re.DOTALL)
"""What coding agents write under the name of their user."""
_OWN_TEXTS = re.compile(_OWN_TAGS + r"|# AGENTS\.md instructions|\[Request interrupted|Caveat: The messages below")


def own_words(raw: Mapping[str, object]) -> Mapping[str, object] | None:
    """A user's message without what the coding agent added to it; None when nothing else is in it."""
    if raw.get("role") != "user":
        return raw
    content, said = raw.get("content"), []
    for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            said.append(part)
        elif (own := _OWN_BLOCKS.sub("", text)).strip() and not _OWN_TEXTS.match(own.lstrip()):
            said.append({**part, "text": own})
    return {**raw, "content": said} if said else None


HIDDEN_LINES = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
"""Flags of lines of Claude Code that nobody says."""
