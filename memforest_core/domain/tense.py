"""Whether an English clause is about what was or about what is to come, for the date in it."""

from __future__ import annotations

import re

_BOUNDARY = re.compile(
    r"[,;:!?()]\s|\.(?:\s|$)|\b(?:and|but|because|so|then|while|although|though|which|that|who|when)\b"
)
_WAS = re.compile(r"\b(?:was|were|wasn't|weren't|had|hadn't|did|didn't|used to|since|ago)\b", re.IGNORECASE)
_TO_COME = re.compile(
    r"\b(?:will|won't|going to|gonna|due|deadline|scheduled|upcoming|plan(?:s|ning)? (?:to|on|for|a)|about to|must"
    r"|should|(?:have|has|needs?|wants?|hopes?|hoping) to|let's|remind|until|till|starting|tomorrow)\b|'ll\b"
    r"|\b(?:am|is|are|be|being|gets?|getting|(?:s?he|it)'s|\w+'re|i'm)\s+(?:not\s+|\w+ly\s+)?(?!been\b)\w+(?:ed|ing)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:went|gone|came|got|gotten|met|saw|seen|took|taken|made|bought|left|began|begun|became|sent|gave|given|told|said"
    r"|found|lost|won|broken?|fell|fallen|felt|kept|knew|known|paid|ran|sat|slept|spoken?|spent|stood|taught|thought|threw"
    r"|understood|woke|wore|wrote|written|drove|driven|flew|flown|ate|eaten|drank|swam|sang|born|built|caught|chosen?|done"
    r"|drew|drawn|fought|forgot|grew|grown|heard|held|led|lent|meant|rode|rose|sold|shot|stolen?|been|brought|wed|quit"
    r"|(?!(?:need|feed|speed|indeed|hundred|seed|breed|exceed|proceed)\b)\w\w+ed)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:am|is|are|has|have|can|does?|it's|there's|that's|s?he's|i'm|\w+'re"
    r"|(?:start|begin|end|leave|arrive|return|move|open|close|expire|come|get|meet|see|play|take|visit|work|pay|travel|drive"
    r"|renew|graduate|retire|turn|land|depart|host|run|join|give)s?|(?:go|teach|launch|finish)(?:es)?|fly|flies|marr(?:y|ies))\b",
    re.IGNORECASE,
)


def looks_ahead(sentence: str, phrase: str) -> bool | None:
    """Whether the clause with a date phrase is about what is to come; None when no verb of it says."""
    sentence, phrase = sentence.replace("’", "'"), phrase.replace("’", "'")
    at = max(0, sentence.find(phrase))
    start = max((found.end() for found in _BOUNDARY.finditer(sentence, 0, at)), default=0)
    after = _BOUNDARY.search(sentence, at + len(phrase))
    clause = sentence[start : after.start() if after else len(sentence)]
    if _WAS.search(clause):
        return False
    if _TO_COME.search(clause):
        return True
    return False if _PAST.search(clause) else True if _PRESENT.search(clause) else None
