"""The wordings that set a state (``words/wordings.txt``), and what a sentence is: a statement, how certain, a denial, a
correction, chat, a question or a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.kinds import Reader, Reading

OF_THE_SPEAKER = frozenset({"preference", "activity", "possession"})
"""Attributes that are read of the speaker alone: others say too little of them."""

PROJECT = re.compile(
    r"(?:[Tt]he\s+|[Mm]y\s+|[Oo]ur\s+)?(?P<what>(?!The\b|My\b|Our\b)(?:[A-Z][\w-]*\s+)+project|project\s+[A-Z][\w-]*)"
    r"\s+(?:is|was|got|has been|will be)\s+(?:now\s+|still\s+)?(?P<value>[\w%’'-]+(?:\s+[\w%’'-]+){0,6})"
)
"""The status of a project, which is its own subject."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    attribute: str
    """Empty where the wording names it."""
    wording: re.Pattern[str]
    reader: Reader | None
    """None where the wording has the value, or there is none."""
    marks: frozenset[str]
    tail: re.Pattern[str] | None
    """What has to follow the value, where that is not just the end of a clause."""

    @property
    def change(self) -> Change:
        """What it does to the state."""
        return next((Change(mark) for mark in ("start", "switch", "stop") if mark in self.marks), Change.NONE)

    @property
    def modality(self) -> Modality:
        """Whether it is a plan."""
        return Modality.PLANNED if "plan" in self.marks else Modality.ASSERTED

    @property
    def polarity(self) -> Polarity:
        """Whether the wording denies by itself ("hates")."""
        return Polarity.NEGATIVE if "denied" in self.marks else Polarity.POSITIVE


@cache
def rules(*, clause: bool = False) -> tuple[Rule, ...]:
    """The wordings that follow a subject, or those that are a whole ``clause``, in the order of the table."""
    return tuple(rule for rule in _table() if ("clause" in rule.marks) is clause)


def pattern(name: str) -> re.Pattern[str]:
    """A pattern of the table by its name."""
    return re.compile(_macros()[name], re.IGNORECASE)


@cache
def _lines() -> tuple[str, ...]:
    table = files("memforest_core.ingest.extract.offline").joinpath("words/wordings.txt").read_text(encoding="utf-8")
    return tuple(line for line in table.splitlines() if line and not line.startswith("#"))


@cache
def _macros() -> dict[str, str]:
    macros: dict[str, str] = {}
    for line in _lines():
        name, equals, written = line.partition(" = ")
        if equals and name.isupper():
            macros[name] = _pattern(written, macros)
    return macros


def _table() -> Iterator[Rule]:
    macros = _macros()
    for line in _lines():
        if " ; " in line:
            attribute, wording, reader, marks, tail = [*line.split(" ; "), "", "", ""][:5]
            yield Rule(
                attribute.strip("-"),
                re.compile(_pattern(wording, macros), re.IGNORECASE),
                _reader(reader.strip()),
                frozenset(marks.strip("- ").split(",")),
                re.compile(_pattern(tail, macros), re.IGNORECASE) if tail else None,
            )


def _pattern(written: str, macros: dict[str, str]) -> str:
    """A regular expression as the table has it, in the form that ``re`` reads."""
    plain = re.sub(r"(?<!\\)\((?!\?)", "(?:", written).replace(" ", r"\s+")
    named = re.sub(r"\{([A-Z]+)\}", lambda found: macros[found[1]], plain)
    return re.sub(r"\{kind:([a-z]+)\}", lambda found: kinds.alternatives(found[1]), named)


def _reader(written: str) -> Reader | None:
    if written in {"", "-"}:
        return None
    if written.startswith("= "):
        value = written.removeprefix("= ")
        return lambda text, at: Reading(value, at)
    own: Reader | None = kinds.READERS.get(written)
    return own or kinds.listed(*written.split(" + "))


_NAME = r"(?:\s+(?:[A-Z]\w+|there|all|everyone|everybody|guys|again|buddy|friend))?"
_HELLO = rf"(?:hi|hey|hello|hiya|yo|good (?:morning|afternoon|evening|night)|dear){_NAME}"
LEAD_IN = re.compile(
    rf"^(?:(?:{_HELLO}|oh|well|wow|haha+|lol|hmm+|um+|uh|yes|yeah|yep|yup|no|nope|ok|okay|sure|so"
    r"|anyway|by the way|btw|thanks|thank you|absolutely|definitely|totally|exactly|great|nice"
    r"|cool|awesome|perfect|lovely|deal|guess what|(?:that |it )?sounds (?:good|great|perfect"
    r"|fun)|you know|fyi|also|and|but|right|please remember(?: that)?"
    r"|remember(?: that)?|please note(?: that)?|note(?: that)?|just so you know"
    rf"|(?:thanks|thank you){_NAME})(?:\s*[,!.;:—-]+\s*|\s+(?=I\b|I['’]|[Mm]y\b|[Ww]e\b)))+",
    re.IGNORECASE,
)
_CHAT = re.compile(
    rf"(?:{_HELLO}(?:, ?[A-Z]\w+)?|bye.*|goodbye.*|see (?:you|ya).*|take care.*|talk (?:to you )?(?:soon|later).*"
    r"|(?:many |ok(?:ay)?,? )?(?:thanks|thank you|thx|ty|cheers)\b.*"
    r"|(?:that |it |this )?(?:all )?(?:sounds?|looks?|seems?) (?:\w+ ){0,2}\w+"
    r"|you(?:['’]re| are) (?:so |very |most )?(?:welcome|right|kind|sweet|the best).*"
    r"|(?:wow|cool|nice|great|awesome|amazing|perfect|sure|ok|okay|yes|yeah|yep|yup|no|nope|right"
    r"|exactly|absolutely|definitely|totally|indeed|agreed|lol|haha\w*|hmm+|congrats|excellent"
    r"|congratulations|fantastic|wonderful|interesting|got it|i see|of course|no problem|no worries"
    r"|my pleasure|will do|good idea|good point|good luck|have (?:a|fun)|same here|me too|please"
    r"|not much|not bad|fair enough|makes sense|anytime|welcome|glad to (?:hear|help)|never mind)"
    r"(?:[ ,]+(?:so|very|much|please|thanks|then|that|to hear|it|great|cool|day|one|good|nice"
    r"|[a-z]+ing|too|on|weekend|a|the|your|for|you|and))*"
    r"|i(?:['’]m| am) (?:so |very |really |doing )*(?:glad|happy|sorry|excited|proud|good|fine|great"
    r"|well|ok|okay)(?: to (?:hear|help).*| for you.*| about (?:that|it).*|,? thanks.*)?"
    r"|i (?:totally |completely |really )?(?:agree|understand|see|know|get it|hope so|think so"
    r"|guess|appreciate (?:it|that|you.*)|hear you|love (?:it|that|this)|like (?:it|that))"
    r"|i(?:['’]ll| will) (?:try|do|go with|take|keep|check|use) (?:that|it|this)(?: out)?"
    r"|(?:lucky|good for|same to) you|you too|(?:i )?can['’]?t wait|no way|(?:so|very) true|tell me about it|way to go"
    r"|(?:how|what an?) \w+|well done|poor thing|fingers crossed|keep it up|you['’]?(?:ve)? got this|for sure"
    r"|(?:how|what) are you.*|let me know.*|i hope (?:you|that helps|this helps).*)",
    re.IGNORECASE,
)
_REACTION = re.compile(
    r"(?:that|it|this|which)(?:['’]s| is| was| sounds?| must be| looks?| would be)(?: [a-z'’]+){1,5}", re.IGNORECASE
)
_QUESTION_WORD = re.compile(
    r"(?:(?:what|who|whom|whose|where|when|why|how|which)(?:['’]s|\s+(?:is|are|was|were|do|does|did"
    r"|can|could|should|would|will|many|much|long|often|about))"
    r"|(?:do|does|did|is|are|was|were|can|could|would|should|will|have|has)"
    r"\s+(?:you|i|we|it|he|she|they|there|the|my|your)|any (?:ideas?|tips|advice|suggestions))\b",
    re.IGNORECASE,
)
_SAID_THEN_QUESTION = re.compile(
    r"(?P<said>[^?]{12,}?)(?:\s*[,;—]+|\s+-+)\s*(?:so |and |but |or )?"
    r"(?:do|does|did|can|could|what|any|how|where|which|is|are|would|should|have|has|who|when|why"
    r"|right|isn['’]t|don['’]t|will|you know)\b[^?]*\?+\W*$",
    re.IGNORECASE,
)
_QUESTION_THEN_SAID = re.compile(r"[^,;—?]{6,120}[,;—]\s*(?P<said>(?:I|i|we|We|my|My)\b[^?]{8,})")
_REQUEST = re.compile(
    r"(?:(?:please|pls|kindly)\b|(?:can|could|would|will) you\b|help me\b|tell me\b|give me\b"
    r"|show me\b|explain\b|write\b|suggest\b|recommend\b|list\b|summarize\b|translate\b|let['’]s see"
    r"|rewrite\b|describe\b|make me\b|find me\b|let me\b|go ahead\b)",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:I|i|my|My|our|Our|we|We)\b")
_ACCEPTS = re.compile(
    r"^(?:(?:yes|yeah|yep|yup|ok|okay|sure|perfect|great|awesome|excellent|deal|done)\b"
    r"(?!\s*,?\s*but\b)|(?:that |it |this )?(?:all )?(?:sounds|looks) (?:\w+ )?(?:good|great|perfect"
    r"|nice|fine|wonderful|lovely|right|amazing)|that works|good idea|great idea)"
    r"|\bI(?:['’]ll| will| am going to|['’]m going to) (?:do|try|go with|take|use|pick|book|buy|stick"
    r" with|follow|give) (?:that|it|this|those|the|your)\b|\blet['’]s (?:do|go with|try|use)\b"
    r"|\b(?:remember|save|keep|note|write down|store) (?:that|this|it|these|those|them)\b"
    r"|\bI(?:['’]d)? (?:like|love|prefer|choose|accept) (?:that|this|your|the (?:first|second|third))",
    re.IGNORECASE,
)
_STRIPPED = " \t\n.!,;:~*-—…\"'”“()[]😀😂😊🙂👍❤️🎉🙏"


def without_lead_in(sentence: str) -> str:
    """The sentence after greetings and fillers, or as it was if nothing else is in it."""
    found = LEAD_IN.match(sentence)
    rest = sentence[found.end() :] if found else sentence
    return rest if len(rest.split()) >= 2 else sentence


def is_question(sentence: str) -> bool:
    """Whether a sentence is a question, with or without its mark."""
    return sentence.rstrip(" \"'”)!").endswith(("?", "？")) or bool(_QUESTION_WORD.match(sentence))


def statement_in_question(sentence: str) -> str:
    """The statement about the speaker in front of a question, or after it, or nothing."""
    found = _SAID_THEN_QUESTION.match(sentence) or _QUESTION_THEN_SAID.fullmatch(sentence)
    if found is None:
        return ""
    said = found["said"].strip()
    is_statement = _SELF.search(said) and len(said.split()) >= 4 and not _QUESTION_WORD.match(said)
    return said if is_statement else ""


def is_chat(sentence: str) -> bool:
    """Whether a sentence only continues the conversation."""
    bare = sentence.strip(_STRIPPED)
    if not bare or not any(char.isalnum() for char in bare):
        return True
    if len(bare) > 120:
        return False
    if _CHAT.fullmatch(bare):
        return True
    concrete = any(char.isdigit() for char in bare) or any(char.isupper() for char in bare[1:])
    if _REACTION.fullmatch(bare) and not concrete:
        return True
    return len(bare.split()) == 1 and not concrete and bare.isascii()


def is_request(sentence: str) -> bool:
    """Whether a sentence requests something to be done."""
    return bool(_REQUEST.match(sentence))


def is_about_speaker(sentence: str) -> bool:
    """Whether a sentence says I, my, we or our."""
    return bool(_SELF.search(sentence))


def accepts(text: str) -> bool:
    """Whether a user's turn takes up, or requests to store, what was said just before."""
    return bool(_ACCEPTS.search(text[:2_000].strip()))


_IDIOMS = re.compile(
    r"can(?:['’]t|not) wait|can(?:['’]t|not) believe|not only|no problem|no doubt|not just"
    r"|why not|can(?:['’]t|not) help|no wonder|not sure",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:not|never|no longer|nobody|none|cannot|neither|nor|no more|[a-z]+n['’]t)\b", re.IGNORECASE
)
_HEARSAY = re.compile(
    r"\b(?:told (?:me|us)|apparently|(?:I|we|i)(?:['’]ve)? heard|reportedly|rumou?r|supposedly"
    r"|allegedly|according to|they say|word is|(?:he|she|they|[A-Z]\w+) (?:said|says|mentioned)\b)"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|might|maybe|perhaps|I wish|imagine|considering|thinking (?:of|about)|possibly|not sure|doubt|pretend"
    r"|suppose|let['’]s say|refuse|almost|would(?!\s+(?:like|love)\b))\b|(?<=[a-z])['’]d\s+(?:rather|probably|be)\b"
)
_SUPPOSED = re.compile(r"^(?:Maybe|Perhaps|If|Possibly|Imagine)\b")
_PLANNED = re.compile(
    r"\b(?:going to (?!bed\b)|gonna|plan(?:s|ning)? (?:to|on|a)\b|hop(?:e|es|ing) to|want(?:s)? to"
    r"|intend(?:s|ing)? to|looking forward|scheduled|will\b(?! power)|won['’]t|can(?:['’]t|not) wait to"
    r"|would (?:like|love) to|about to|moving to|starting (?:next|on|in|tomorrow)|signed up)"
    r"|['’]ll\b|(?<=[Ii])['’]d (?:like|love) to"
)
CORRECTION = re.compile(
    r"^(?:(?:oh|sorry|oops|wait|no|hmm|ah)[,.!\s]+)*(?:actually\b|correction\b|I meant\b|I misspoke\b"
    r"|scratch that|I was wrong|my mistake|to correct|let me correct|no,\s+(?:it|I|my|we|that)\b"
    r"|sorry,\s+(?:it['’]s|I)\b)|\bI meant\b|,\s+actually\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(r",?\s+not\s+(?:in |at |on |a |an |the )?(?P<old>[\w-]+(?:\s+[A-Z]\w+)?)[.!]*$")

_SUPPOSING = pattern("SUPPOSING")
_CONDITION = pattern("CONDITION")
_REPORTED = pattern("REPORTED")
_TO_REMEMBER = pattern("TOREMEMBER")
_TAKEN_BACK = pattern("TAKENBACK")
_CLAUSE = re.compile(r"[.;!?]|\s+-+\s+")


def modality_of(sentence: str) -> Modality:
    """Hearsay before hypothetical before planned; else asserted."""
    if _HEARSAY.search(sentence) or sentence.startswith(("Apparently", "According to")):
        return Modality.HEARSAY
    if _HYPOTHETICAL.search(sentence) or _SUPPOSED.match(sentence):
        return Modality.HYPOTHETICAL
    return Modality.PLANNED if _PLANNED.search(sentence) else Modality.ASSERTED


def is_asserted(sentence: str, start: int, end: int) -> bool:
    """Whether the speaker says a clause in earnest: not supposed, reported, quoted or taken back."""
    request = _TO_REMEMBER.search(sentence, 0, start)
    if request is not None and not _REPORTED.search(sentence[: request.start()]):
        # A condition is one of the request, not of what is to be remembered.
        sentence, start, end = sentence[start:], 0, end - start
    if _SUPPOSING.match(sentence) or _TAKEN_BACK.search(sentence, end) or sentence.rstrip(" \"'”)").endswith("?"):
        return False
    before = sentence[:start]
    clause = before[max((found.end() for found in _CLAUSE.finditer(before)), default=0) :] + " "
    return not any((_SUPPOSING.match(clause), _REPORTED.search(before), _CONDITION.search(before)))


def polarity_of(sentence: str) -> Polarity:
    """Whether the sentence denies; "Denver, not Boston" asserts Denver."""
    rest = _NOT_BUT.sub("", _IDIOMS.sub("", sentence))
    return Polarity.NEGATIVE if _NEGATIVE.search(rest) else Polarity.POSITIVE


def corrects(sentence: str) -> bool:
    """Whether the sentence takes back something said before."""
    return CORRECTION.search(sentence) is not None


def value_denied(sentence: str) -> str:
    """What "X, not Y" takes back: Y, or nothing."""
    found = _NOT_BUT.search(sentence)
    return found["old"] if found else ""
