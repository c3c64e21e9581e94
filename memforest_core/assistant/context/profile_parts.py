"""A portrait as parts of a context."""

from __future__ import annotations

from memforest_core.assistant.context.portraits import Portrait
from memforest_core.assistant.context.records import ContextPart, Omission, PartKind, Section, Why
from memforest_core.assistant.context.rendering import line_tokens


def profile_parts(portrait: Portrait, max_tokens: int) -> tuple[list[ContextPart], list[Omission], int]:
    """The lines that fit, in their order, what is left out, and the tokens taken.

    What a model wrote is taken from the beginning on, then the list: what began last first. The first one that does not
    fit ends it, so that with more tokens nothing is left out that was in before.
    """
    written, listed = portrait.lines[: portrait.written], portrait.lines[portrait.written :]
    parts = [
        ContextPart(
            Section.PROFILE,
            PartKind.SENTENCE,
            line.text,
            line_tokens(line.text),
            fact_ids=line.facts,
            digest_id=line.digest,
        )
        for line in (*written, *listed)
    ]
    order = [*range(len(written)), *range(len(parts) - 1, len(written) - 1, -1)]
    left, taken = max_tokens, set[int]()
    for at in order:
        if parts[at].tokens > left:
            break
        left -= parts[at].tokens
        taken.add(at)
    shown = [part for at, part in enumerate(parts) if at in taken]
    out = [
        Omission(Section.PROFILE, Why.BUDGET, part.tokens, part.fact_ids)
        for at, part in enumerate(parts)
        if at not in taken
    ]
    return shown, out, sum(part.tokens for part in shown)
