"""Whom a sentence is said to: mentions, and names of speakers, in front of what the speaker says. Nothing is said of
them by it, so it is left out before the sentence is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from memforest_core.domain.people import MENTION, People, found_in, name_key
from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, is_listed, pattern

MAX_CHARS = 400
"""An address is looked for in so much of a sentence."""

_EVERYBODY = re.compile(
    r"(?:@(?:all|here|channel|everyone|everybody|team)\b(?![.-])|<!\w[^<>\n]{0,80}>)", re.IGNORECASE
)
_ISOLATED = re.compile("@\u2068[^\u2069\n]{1,80}\u2069")
_MENTIONED = re.compile(rf"{MENTION.pattern}|@[^\W_][\w.'’-]*\b(?::[\w-]+\.[\w.-]*\w)?")
_FIRST_WORD = re.compile(r"\w[\w-]*")
_NEXT_NAME = re.compile(r" (?P<word>[^\W\d_a-zß-öø-ÿ][\w'’-]+)")
_JOINED = re.compile(r"\s*(?:,|&|\+|/|\band\b)?\s*")
_AND = re.compile(r"\s*+,?\s*+(?:and\b|&|\+)", re.IGNORECASE)
_PARTED = re.compile(r"\s*(?:[,;:!.…—–]+|-+\s)\s*")
_FIRST_PERSON = re.compile(
    r"(?:[Ii](?:['’]?(?:m|ve)|['’](?:d|ll))?|[Ww]e(?:['’](?:re|ve|d|ll))?|[Mm]y|[Oo]ur|[Mm]e and)\b(?![.-]| and\b)"
)
_APPOSITION = re.compile(r"\s*,\s*(?:my|our) [^,.]{1,60}, (?!but\b|and\b|so\b|I\b)", re.IGNORECASE)
_OTHERS = re.compile(
    r"(?:when|if|because|while|although|you|your|it|there|he|she|they|his|her|their|let|what|where|how|why|please|thanks|thank|congrats"
    r"|(?:do|did|are|were|have|can|could|would|will) (?:you|we|I))\b",
    re.IGNORECASE,
)
"""What has a subject of its own, or none: what is mentioned before it is not its subject."""
_ISOLATES = str.maketrans("＠", "@", "\u2066\u2067\u2068\u2069")


def without_address(sentence: str, people: People | None, known: Collection[str]) -> str:
    """The sentence without those to whom it is said, and without marks around names that only screens need; ``known``
    are the names of those who speak. "@Jonas moved" stays: it says something of Jonas."""
    text = sentence.replace("＠", "@")
    greeting = pattern("GREETING").match(text)
    start = at = greeting.end() if greeting else 0
    mentions, everybody = True, False
    run = list(_run(text, at, people, known))
    for end, mentioned, all_of_them in run:
        at, mentions, everybody = end, mentions and mentioned, everybody or all_of_them
    # Mentions with nothing but spaces between them are no subject.
    listed = len(run) > 1 and not re.search(r"[,&+/]|\band\b", text[run[0][0] : at])
    if at > start and (everybody or _said_to(text, at, mentions=mentions, listed=listed)):
        text = text[at:].lstrip(" \t,;:!.…—–-")
    return text.translate(_ISOLATES)


def _run(text: str, at: int, people: People | None, known: Collection[str]) -> Iterator[tuple[int, bool, bool]]:
    """The ends of the mentions and names one after the other, whether each is a mention, and one of everybody."""
    first = _FIRST_WORD.match(text, at)
    named = people is not None and (text[at : at + 1] in {"@", "<"} or (first and people.begins(name_key(first[0]))))
    names = {one.start: one.end for one in found_in(text[:MAX_CHARS], people)} if people and named else {}
    while at < min(len(text), MAX_CHARS):
        everybody = _EVERYBODY.match(text, at)
        found = everybody or _ISOLATED.match(text, at) or _MENTIONED.match(text, at)
        ends = [_with_names(text, found)] if found else [at]
        ends += [
            at + len(name)
            for name in known
            if text.startswith(name, at) and not text[at + len(name) : at + len(name) + 1].isalnum()
        ]
        end = max(*ends, names.get(at, at))
        if end == at:
            return
        yield end, found is not None, everybody is not None
        joined = _JOINED.match(text, end)
        at = joined.end() if joined else end


def _with_names(text: str, found: re.Match[str]) -> int:
    """The end of a mention with the other names of the person ("@Jonas Weber")."""
    end = found.end()
    if not re.match(r"@[^\W\d_a-zß-öø-ÿ]", found.group()):
        return end
    for _ in range(2):
        name = _NEXT_NAME.match(text, end)
        if name is None or _begins_sentence(name["word"]) or pattern("ELLIPTIC").match(name["word"]):
            break
        end = name.end()
    return end


def _begins_sentence(word: str) -> bool:
    bare = re.split("['’]", word.casefold())[0]
    return bare in NOT_NAMES or is_listed(bare, "common word") or _begins_news(bare)


def _begins_news(word: str) -> bool:
    """Whether a word leads in what the speaker says ("great", "sorry")."""
    bare = word.rstrip(",!")
    return is_listed(bare, "interjection") or pattern("LEADIN").match(f"{bare}, ") is not None


def _said_to(text: str, at: int, *, mentions: bool, listed: bool) -> bool:
    """Whether what follows is not about those before it."""
    parted = _PARTED.match(text, at)
    if _AND.match(text, at) or _APPOSITION.match(text, at) or not (parted or text[at : at + 1].isspace()):
        return False
    rest = text[parted.end() if parted else at :].lstrip()
    if not mentions:
        # "Jonas: I moved" may be what Jonas wrote, and "Will I move" is a question.
        alone = ":" not in parted.group() if parted else text[:at].split()[-1].casefold() not in NOT_NAMES
        return alone and _FIRST_PERSON.match(rest) is not None
    leads = (pattern(name).match(rest) for name in ("FILLER", "LEADIN"))
    if any(_FIRST_PERSON.match(rest, found.end() if found else 0) for found in leads) or _OTHERS.match(rest):
        return True
    if _begins_news(rest.split(" ", 1)[0]):
        return True
    return pattern("ELLIPTIC").match(rest) is not None and (parted is not None or listed or rest[:1].isupper())
