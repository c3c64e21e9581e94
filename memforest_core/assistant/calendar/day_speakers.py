"""The speakers of a day: which turns are theirs, which ones are about them, and which words are of others alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from memforest_core.assistant.calendar.records import DayTurn, SpeakerDigest
from memforest_core.domain.extractive import summarize
from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.people import KnownPerson, People, found_in, without_ids
from memforest_core.domain.rendering import block, one_line, turn_line
from memforest_core.domain.text import sentences, terms
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.offline.replies import informative, speaking

BATCH = 25
"""Speakers that one call writes of: 25 texts of 300 characters are some 2,500 of the 4,096 tokens of an answer."""
RUN = 3
"""So many words in a row that only others said are theirs, however common each is."""
COMMON_WORDS = slice(1_996, 6_000)
"""Lines of BERT's vocabulary, which is in the order of frequency and begins with signs: the 4,000 most common words."""
_OTHERS_SHARE = 3
_SHORTEST = 60
NAME_CHARS = 80
_GREETING = re.compile(r"(?:(?:hi|hey|hello|dear|thanks|thank you|sorry|sure|ok|okay|yes|no|well|welcome),? )?@?", re.I)
_PROPER = re.compile(r"(?<=[\w,;] )[A-Z][\w'’-]+")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Somebody who spoke on a day, or of whom others spoke; turns by their numbers on the day, from 0."""

    id: str
    name: str
    texts: tuple[str, ...]
    """Of the own turns."""
    others: tuple[tuple[str, str], ...]
    """Who else mentioned them, and the sentences that do; and what an assistant answered, without filler."""
    own: frozenset[int]
    answers: frozenset[int]
    """Turns of an assistant that follow the own ones."""
    about: frozenset[int]
    """Turns of others that are about them: answers and mentions."""

    @property
    def turns(self) -> frozenset[int]:
        """All turns that the text rests on."""
        return self.own | self.about

    def joined(self) -> SpeakerDigest:
        """All words as they are."""
        return self.digest("\n".join(self.texts), "\n".join(_quote(*each) for each in self.others))

    def picked(self, budget: int) -> SpeakerDigest:
        """What rules pick, in at most ``budget`` characters; a third of them for others."""
        others = _quotes(self.others, budget // _OTHERS_SHARE if self.texts else budget)
        return self.digest(summarize(self.texts, budget - len(others) - bool(others)), others)

    def digest(self, text: str, others: str = "", *, picked: bool = False) -> SpeakerDigest:
        """The digest with this text."""
        return SpeakerDigest(self.id, self.name, text, len(self.texts), others, picked)


def speakers_of(turns: Sequence[DayTurn], people: People) -> list[Speaker]:
    """The people of a day, the one who spoke most first, those who are only mentioned last; all speakers where no human
    spoke. A person is one under all ids and names."""
    human = any(turn.role is Role.USER for turn in turns)
    said: dict[str, list[str]] = defaultdict(list)
    own, answers, mentions = (defaultdict[str, set[int]](set) for _ in range(3))
    heard = defaultdict[str, set[str]](set)
    for turn in turns:
        if turn.role is Role.USER:
            known = people.by_id(turn.speaker_id)
            heard[turn.session].add(turn.speaker_id if known is None else known.id)
    others: dict[str, list[tuple[str, str]]] = defaultdict(list)
    names: dict[str, str] = {}
    last: dict[str, str] = {}
    for at, turn in enumerate(turns):
        known = people.by_id(turn.speaker_id)
        speaker = turn.speaker_id if known is None else known.id
        text = without_ids(turn.text, people)
        if turn.role is Role.USER or not human:
            said[speaker].append(text)
            names[speaker] = turn.name
            last[turn.session] = speaker
            own[speaker].add(at)
        # A reply is to whom it names, else to the only person of its session: of several nobody knows which one.
        whose = last.get(turn.session, speaker) if len(heard[turn.session]) < 2 else speaker
        if turn.role is Role.ASSISTANT and human and (addressed := _addressed(turn.text, people)) is not None:
            whose = addressed.id
            names.setdefault(whose, addressed.name)
        answers[whose].add(at)
        if turn.role is Role.ASSISTANT and whose in names and human and (reply := informative(text)):
            others[whose].append((speaking(turn.name), reply))
        for person, words in _mentions(turn.text, people).items():
            if person.id not in (speaker, whose):
                names.setdefault(person.id, person.name)
                others[person.id].append((turn.name, without_ids(" ".join(words), people)))
                mentions[person.id].add(at)
    spoke = sorted(said, key=lambda id_: -len(said[id_]))
    return [
        Speaker(
            id_,
            names[id_][:NAME_CHARS],
            tuple(said[id_]),
            tuple(others[id_]),
            frozenset(own[id_]),
            frozenset(answers[id_] - own[id_]),
            frozenset(mentions[id_] | answers[id_] - own[id_]),
        )
        for id_ in (*spoke, *(id_ for id_ in others if id_ not in said))
    ]


def answered(turns: Sequence[DayTurn], budget: int) -> tuple[SpeakerDigest, ...]:
    """What each assistant said to people on a day, without filler, picked by rules; nothing where no human spoke."""
    said: dict[str, list[DayTurn]] = defaultdict(list)
    for turn in turns if any(turn.role is Role.USER for turn in turns) else ():
        if turn.role is Role.ASSISTANT:
            said[turn.speaker_id].append(turn)
    texts = {id_: summarize([informative(each.text) for each in own], budget) for id_, own in said.items()}
    return tuple(
        SpeakerDigest(id_, speaking(own[-1].name), texts[id_], len(own)) for id_, own in said.items() if texts[id_]
    )


def in_batches(speakers: Sequence[Speaker], parts: int) -> list[list[Speaker]]:
    """Speakers in batches of about one size: who spoke at one time is in one batch.

    ``parts`` is how many calls read all turns: where several batches are needed anyway up to twice as many are made, so
    that one call reads one.
    """
    count = -(-len(speakers) // BATCH)
    count = max(count, min(parts, 2 * count)) if count > 1 else count
    ordered = sorted(speakers, key=lambda each: min(each.turns))
    return [ordered[len(ordered) * at // count : len(ordered) * (at + 1) // count] for at in range(count)]


def newest_of_each(speakers: Iterable[Speaker], turns: Collection[int]) -> list[int]:
    """Numbers of turns, the last one of every speaker first, then the last but one of each, and so on."""
    rank: dict[int, int] = {}
    for each in speakers:
        for place, at in enumerate(sorted(each.turns, reverse=True)):
            rank[at] = min(place, rank.get(at, place))
    return sorted(turns, key=lambda at: (rank.get(at, len(turns)), -at))


class DayWords:
    """The words of a day's turns: a text about one person has no word that only others said, unless it says who did.

    Common English words are everybody's, unless they are part of a name or ``RUN`` of them follow one another.
    """

    def __init__(self, turns: Sequence[DayTurn], people: People) -> None:
        self.shown = [without_ids(turn.text, people) for turn in turns]
        """The texts of the turns, with names in the place of ids."""
        self._language = language_of(" ".join(self.shown))
        self._said = [self._features(text) for text in self.shown]
        proper = {term for text in self.shown for word in _PROPER.findall(text) for term in terms(word, self._language)}
        free = _common() - proper if self._language == ENGLISH else frozenset[str]()
        everybody = " ".join(name for person in people.everybody for name in (*person.names, *person.ids))
        self._free = free | frozenset(terms(everybody, self._language))
        self._all = frozenset[object]().union(*self._said)

    def without_others(self, speaker: Speaker, text: str) -> str:
        """The sentences of a text that have no words of others alone; what others said of them only with the name of
        who said it."""
        foreign = self._all.difference(self._free, *(self._said[at] for at in speaker.own | speaker.answers))
        by_others = [(set(terms(name, self._language)), self._features(words)) for name, words in speaker.others]
        left: list[str] = []
        for each in sentences(text):
            has = self._features(each)
            if not (foreign & has).difference(*(words for name, words in by_others if name and has.issuperset(name))):
                left.append(each)
        return " ".join(left)

    def _features(self, text: str) -> frozenset[object]:
        words = terms(text, self._language)
        return frozenset((*words, *zip(*(words[at:] for at in range(RUN)), strict=False)))


@cache
def _common() -> frozenset[str]:
    vocabulary = resources.files("memforest_core.models.embedders") / "bert-base-uncased-vocab.txt"
    words = vocabulary.read_text(encoding="utf-8").splitlines()[COMMON_WORDS]
    return frozenset(terms(" ".join(words), ENGLISH))


def _mentions(text: str, people: People) -> dict[KnownPerson, list[str]]:
    """Whom the text mentions, each with the sentences that do."""
    found: dict[KnownPerson, list[str]] = {}
    for sentence in sentences(text):
        for person in {each.person for each in found_in(sentence, people)}:
            found.setdefault(person, []).append(sentence)
    return found


def _addressed(text: str, people: People) -> KnownPerson | None:
    """Whom a reply begins with: "Ann, your code is 12", "Hi @ann ..."."""
    first = next(iter(found_in(text[:NAME_CHARS], people)), None)
    if first is None or _GREETING.fullmatch(text[: first.start]) is None:
        return None
    return first.person if "@" in text[: first.start + 2] or text[first.end :][:1] in {",", ":", "!"} else None


def _quote(name: str, words: str) -> str:
    return block(turn_line(name, f'"{one_line(words).replace(chr(34), chr(39))}"'))


def _quotes(others: Sequence[tuple[str, str]], budget: int) -> str:
    """Words of others in at most so many characters, the newest ones."""
    share = max(_SHORTEST, budget // max(1, len(others)) - 1)
    lines: list[str] = []
    for name, words in reversed(others):
        shown = summarize([words], share - len(_quote(name, "")))
        line = _quote(name, shown)
        if len("\n".join((line, *lines))) > budget:
            break
        lines[:0] = [line] if shown else []
    return "\n".join(lines)
