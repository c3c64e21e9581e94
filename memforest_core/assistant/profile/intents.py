"""What a text that is addressed to an assistant requests of its memory: by a model, or by rules (English)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import BaseModel

from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.profile.records import Intent, IntentKind, Made
from memforest_core.domain.ids import TenantId
from memforest_core.domain.text import clean, sentences
from memforest_core.errors import ContentFault, InvalidInput

MAX_CHARS = 8_192
"""Of a text; a recall's question has the same limit."""

_SYSTEM = """\
You read one message that somebody wrote to an assistant with a long-term memory, and say what it asks of that memory.
The user message is a JSON document: "text" is the message.

"kind" is one of: "remember" (the assistant is asked to keep something in mind), "forget" (it is asked to forget or
delete something), "about_me" (it is asked what it knows about the writer), "none" (anything else: questions, chat,
reminders of what both know, phrases such as "forget it"). "object" is what is to be remembered or forgotten, or which
part of the knowledge about the writer is asked for: a run of words copied from the text as it is, without the request
itself. It is empty for "none", and for "about_me" when everything is asked for.
"""

_POLITE = (
    r"^(?:(?:hey|hi|hello|ok(?:ay)?|so|and|oh|well|also|please|pls|kindly|just|now)\b[\s,!.:-]*"
    r"|(?:can|could|would|will)\s+you\s+(?:please\s+)?|i(?:'d|\s+would)?\s+(?:want|like|need)\s+you\s+to\s+"
    r"|you\s+(?:should|must|can)\s+)*"
)
_LINK = r"(?:\s*[:,-]\s*|\s+(?:that|this|the\s+fact\s+that)\s*[:,]?\s+|\s+)"
_REMEMBER = re.compile(
    rf"{_POLITE}(?:(?:always\s+)?remember|(?:do\s+not|don'?t|never)\s+forget|keep\s+in\s+mind|bear\s+in\s+mind"
    rf"|(?:make|take)\s+a\s+note(?:\s+of)?|note(?=\s+that\b|\s*:)|memorize|memorise|save\s+to\s+(?:your\s+)?memory)"
    rf"(?:\s+for\s+me)?{_LINK}(?P<object>\S.*)$",
    re.IGNORECASE | re.DOTALL,
)
_REMEMBER_NOTHING = re.compile(
    r"^(?:when|how|why|what|where|who|the\s+time|me|it|us|to\s+(?:be|breathe|have\s+fun)|that|this)\b[^,.]{0,60}\??$",
    re.IGNORECASE,
)
_FORGET = re.compile(
    rf"{_POLITE}(?:forget|stop\s+remembering|(?:delete|erase|remove|clear|wipe)(?=.*\b(?:memory|memories|remember|know)\b))"
    rf"(?:\s+about|\s+(?:everything|anything|all|what)(?:\s+(?:that\s+)?(?:you\s+(?:know|remember)|i\s+(?:said|told\s+you)))?"
    rf"\s+about)?{_LINK}(?P<object>\S.*)$",
    re.IGNORECASE | re.DOTALL,
)
_FROM_MEMORY = re.compile(r"\s+(?:from|in|out\s+of)\s+(?:your|the)\s+memor(?:y|ies)$", re.IGNORECASE)
_FORGET_NOTHING = re.compile(
    r"^(?:it|that|this|about\s+it|about\s+that|i\s+(?:asked|said\s+anything)|him|her|them|you)\W*$", re.IGNORECASE
)
_ABOUT_ME = re.compile(
    rf"{_POLITE}(?:what\s+(?:else\s+)?(?:do|did|have|can)\s+you\s+(?:really\s+|actually\s+)?"
    r"(?:know|remember|learned|learnt|stored|saved|recall|tell\s+me)"
    r"|(?:tell|show)\s+me\s+(?:what|everything|all)(?:\s+that)?\s+you\s+(?:know|remember|have\s+stored))"
    r"\s+(?:about|of)\s+(?P<object>me|my\s+[^?.!]{1,80}?|myself)\s*[?.!]*$"
    rf"|{_POLITE}(?:who\s+am\s+i|do\s+you\s+know\s+(?:who\s+i\s+am|me))\s*[?.!]*$",
    re.IGNORECASE,
)
_END = " \t\n.!?\"'"
_SPACES = re.compile(r"\s+")


class IntentAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    kind: IntentKind
    object: str


@dataclass(frozen=True, slots=True)
class Intents:
    """Reads what texts ask for. Thread-safe."""

    calls: CheckedCalls

    def intent(self, tenant: TenantId, text: str) -> Intent:
        """What a text that is addressed to the assistant requests of its memory: to remember or forget something,
        what is known about the writer, or nothing. Nothing is done about it.

        ``text`` has at most 8,192 characters. With a chat model one call reads it (a second one when the answer can't
        be used); else, or when the model is unavailable, rules do, and ``degraded`` says so in the latter case. Raises
        InvalidInput, StoreUnavailable.
        """
        if not isinstance(text, str) or len(text) > MAX_CHARS:
            raise InvalidInput(f"Give a text of at most {MAX_CHARS} characters.", code="invalid_text")
        text = clean(text).strip()
        if not text or not self.calls.possible:
            return read_by_rules(text)

        def check(answer: IntentAnswer) -> Intent:
            return _checked(answer, text)

        read, why = self.calls.answer(tenant, None, _SYSTEM, {"text": text}, IntentAnswer, check, "intent")
        if read is not None:
            return read
        by_rules = read_by_rules(text)
        note = f"The text was read by rules: {why}."
        return Intent(by_rules.kind, by_rules.object, Made.RULES, (note,))


def read_by_rules(text: str) -> Intent:
    """What a text requests, by patterns over its sentences: the first sentence that requests something counts."""
    for sentence in sentences(text.replace("\u2019", "'")):
        said = sentence.strip()
        about = _ABOUT_ME.match(said)
        if about is not None:
            what = (about["object"] or "").strip(_END)
            return Intent(IntentKind.ABOUT_ME, "" if what.casefold() in {"me", "myself"} else what, Made.RULES)
        for kind, pattern, nothing in (
            (IntentKind.REMEMBER, _REMEMBER, _REMEMBER_NOTHING),
            (IntentKind.FORGET, _FORGET, _FORGET_NOTHING),
        ):
            found = pattern.match(said)
            if found is None:
                continue
            what = _FROM_MEMORY.sub("", found["object"].strip(_END)).strip(_END)
            is_question = kind is IntentKind.REMEMBER and said.endswith("?") and not _is_polite_request(said)
            if what and not is_question and not nothing.match(what):
                return Intent(kind, what, Made.RULES)
    return Intent(IntentKind.NONE, "", Made.RULES)


def _is_polite_request(said: str) -> bool:
    """Whether a question is a request: "Can you remember that I am vegan?"."""
    return re.match(r"^(?:\w+[\s,]+)?(?:can|could|would|will)\s+you\b", said, re.IGNORECASE) is not None


def _checked(answer: IntentAnswer, text: str) -> Intent:
    """The intent of an answer. Raises ContentFault for an object that is not in the text, or is missing."""
    what = " ".join(clean(answer.object).split()).strip(_END)
    if answer.kind is IntentKind.NONE:
        return Intent(IntentKind.NONE, "", Made.MODEL)
    if _folded(what) not in _folded(text):
        raise ContentFault('"object" is not a run of words of the text: copy it as it is')
    if not what and answer.kind is not IntentKind.ABOUT_ME:
        raise ContentFault(f'"object" is empty for the kind "{answer.kind}"')
    return Intent(answer.kind, what, Made.MODEL)


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text.casefold()).replace("\u2019", "'")
