"""What is worth keeping of a turn: small talk, questions and requests are not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memforest_core.domain.text import STOP_WORDS, sentences, terms

_SMALL_TALK = re.compile(
    r"^(?:(?:hi|hello|hey|howdy|good\s(?:morning|afternoon|evening|night|day)|morning|evening|thanks?|thank\syou|thx|ty|bye|goodbye"
    r"|see\s(?:you|ya)|take\scare|ok|okay|sure|great|cool|nice|awesome|perfect|wow|lol|haha+|ha|hmm+|yes|yeah|yep|no|nope|nah"
    r"|congrat\w*|cheers|welcome|sorry|please|exactly|absolutely|totally|right|indeed|noted|fine|oh|ouch|well|so|very|again"
    r"|sounds|good|fun|lovely|amazing|wonderful|fantastic|terrific|will|do|got|it|that|is|a|lot|much|for|the|help|your|you|all|there"
    r"|everyone|everybody|guys|friend|to|meet|me|too|how|are|same|here|i|see|know|agree|think|love|happy|new|year|very|funny|later|"
    r"tomorrow|bit|and|go|gotta|have|nice|day|luck|best|of)\b[\s,.!'’…-]*)+$",
    re.IGNORECASE,
)
_INTERJECTION = re.compile(
    r"^(?:(?:hi|hello|hey|thanks|thank you|yes|yeah|yep|no|nope|well|oh|okay|ok|sure|wow|haha+|ha|lol|so|anyway|by the way|btw|actually"
    r"|honestly|sorry|hmm+|um+|guess what|and|but|also|okay so|noted|fine)(?:[,!.…]+\s+|\s[-–—]\s))+",
    re.IGNORECASE,
)
_KEEP = re.compile(
    r"^(?:(?:oh|and|also|ok|okay),?\s+)*(?:please\s+)?(?:also\s+)?(?:can you\s+|could you\s+)?(?:please\s+)?"
    r"(?:remember|note|write down|keep in mind|don['’]t forget|make a note|save|for the record)(?:\s+for\s+(?:me|later))?(?:\s+that|\s*[:,])?\s+",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^(?:please\s+)?(?:tell|give|help|write|show|explain|suggest|recommend|list|make me|create|find|translate|summari[sz]e|let me know"
    r"|describe|compare|generate|draft|rewrite|check|look up|teach|imagine|act as|pretend|provide|continue|go on|try again|enjoy"
    r"|consider|try|guess|stay|pack|introduce|collect|whisk|take (?:your|it)|write yourself)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:—–]\s+|\s[-–—]\s|\s(?:because|since|as|but|so)\s(?=(?:I|my|we)\b)")
_OWN_CLAUSE = re.compile(
    r"^(?:(?:and|but|so|since|because|as)\s+)?(?:I|I['’]\w+|my|we|we['’]\w+)\s+\w+\s+\w+", re.IGNORECASE
)
_ACCEPTED = re.compile(
    r"\b(?:sounds (?:good|great|perfect)|(?:good|great|excellent|perfect) idea|let['’]s (?:do|go|try)|i['’]ll (?:do|try|take|go with|use|book)"
    r"|that works|works for me|deal\b|agreed|book (?:it|that)|please (?:remember|save|keep|note)|keep (?:that|this) in mind"
    r"|remember (?:that|this)|save (?:that|this)|i accept|go (?:ahead|for it))",
    re.IGNORECASE,
)
_FOREIGN = frozenset(
    """el la los las un una unos que de del en por para con su mi tu es está muy pero como más yo soy
    le les des du et est une dans pour pas je tu il elle nous vous ils sur avec mon ma mes ai suis
    der die das und ist ich nicht ein eine einen mit für auf wir sie mein meine bin habe zu von dem den
    il lo gli di che non per sono della ho mio mia nel con
    o os em um uma não eu meu minha com na no ao mais
    het een niet ik mijn van op dat met voor ben heb""".split()  # noqa: SIM905 - a table reads better than a list
)
_ENGLISH = STOP_WORDS | {"my", "got", "get", "us", "went", "new", "it's", "i'm"}
_TOKEN = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")


def statements(text: str) -> Iterator[str]:
    """The pieces of a human turn that may say something, each a verbatim part of it."""
    for sentence in sentences(text):
        kept = requested_to_keep(sentence)
        if kept:
            yield kept
        elif sentence.rstrip("\"'”’)* ").endswith(("?", "？", "؟")):
            yield from _own_clauses(sentence)
        elif not _SMALL_TALK.match(sentence) and not _REQUEST.match(sentence) and _says_something(sentence):
            yield sentence


def requested_to_keep(sentence: str) -> str:
    """What follows "please remember that"; empty without such a request."""
    found = _KEEP.match(sentence)
    rest = sentence[found.end() :].strip() if found else ""
    return rest if len(rest.split()) > 2 else ""


def _own_clauses(question: str) -> Iterator[str]:
    """Clauses of a question in which the speaker states something of their own."""
    for clause in _CLAUSE.split(question)[:-1] if _CLAUSE.search(question) else ():
        clause = clause.strip()
        if len(clause.split()) > 3 and _OWN_CLAUSE.match(clause):
            yield clause


def _says_something(sentence: str) -> bool:
    if not is_english(sentence):
        return len(sentence) > 3
    return len(terms(sentence)) >= 2 and (len(sentence.split()) > 2 or any(char.isdigit() for char in sentence))


def without_interjection(sentence: str) -> str:
    """The sentence without a leading "Yeah, " or "Oh, "."""
    rest = _INTERJECTION.sub("", sentence, count=1)
    return rest if len(rest.split()) > 1 else sentence


def accepts(text: str) -> bool:
    """Whether a turn takes up what was proposed before it, or asks to keep it."""
    return _ACCEPTED.search(text[:400]) is not None


def offers(text: str) -> Iterator[str]:
    """The pieces of an assistant's turn that can be accepted: statements with content, in any mood."""
    for sentence in sentences(text):
        if sentence.endswith("?") or _SMALL_TALK.match(sentence):
            continue
        if len(sentence.split()) > 3 and len(terms(sentence)) >= 3:
            yield sentence


def is_english(sentence: str) -> bool:
    """Whether the English rules apply: mostly Latin letters, and no more foreign than English function words."""
    letters = [char for char in sentence if char.isalpha()]
    if not letters:
        return True
    if sum(_LATIN.match(char) is not None for char in letters) * 2 < len(letters):
        return False
    words = _TOKEN.findall(sentence.casefold())
    foreign = sum(word in _FOREIGN for word in words)
    return foreign == 0 or foreign <= sum(word in _ENGLISH for word in words)
