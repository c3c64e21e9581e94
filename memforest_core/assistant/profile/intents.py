"""What a text that is addressed to an assistant requests of its memory: by a model, or by rules (English; in part also
German, French and Spanish)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.profile.persons import REQUESTS, alias_in
from memforest_core.assistant.profile.records import Intent, IntentKind, Made
from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.ids import TenantId
from memforest_core.domain.people import MAX_NAME_WORDS, KnownPerson, People, found_in, name_key
from memforest_core.domain.text import clean, sentences
from memforest_core.domain.turns import checked_name
from memforest_core.errors import ContentFault, InvalidInput
from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, names_in
from memforest_core.store.engine import Engine

MAX_CHARS = 8_192
"""Of a text; a recall's question has the same limit."""
ADDRESSEES = ("bot", "memo", "memforest", "assistant")
"""Names of an assistant that are left out where the caller gives none."""
MAX_ADDRESSEES = 16

_SYSTEM = """\
You read one message that somebody wrote to an assistant with a long-term memory, and say what it asks of that memory.
The user message is a JSON document: "text" is the message.

"kind" is one of: "remember" (the assistant is asked to keep something in mind), "forget" (it is asked to forget or
delete something), "about_me" (it is asked what it knows about the writer), "about" (it is asked what it knows about
somebody else), "recall" (any other question about the writer's group or its people), "none" (anything else: chat, other
questions, tasks, reminders of what people both know, reports of what somebody said to an assistant, phrases such as
"forget it").

"object" is what is to be remembered or forgotten, or which part of the knowledge is asked for: a run of words copied
from the text as it is, without the request itself. It is empty for "none", and for "about" and "about_me" when
everything is asked for. "about" is the name of the person whom the object is about, copied from the text; it is empty
when that is the writer or nobody. "alias" is another name of this person ("Sergey" of "remember that gruzilkin is
Sergey", about gruzilkin), copied from the text; it is empty unless the object says that somebody has it.
"""

_END = " \t\n.!?"
_SPACES = re.compile(r"\s+")
_WHOLE = re.compile(r"""(["'])(?P<words>[^"']*)\1""")
_CITED = re.compile(r"^\s*>.*$", re.MULTILINE)
_SAYS = REQUESTS.patterns


class IntentAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    kind: IntentKind
    object: str
    about: str = ""
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Chat:
    """Who wrote a text, and whom it may name."""

    people: People | None = None
    """Everybody who speaks; None when no owner is given."""
    writer: str | None = None
    addressees: tuple[str, ...] | None = None

    def said(self, text: str) -> tuple[str | None, bool]:
        """What a text says to the assistant, without its name, and whether the name is in it; None when it has to be
        and is not."""
        text = _CITED.sub("", text.replace("\u2019", "'")).strip()
        names = "|".join(re.escape(name.lstrip("@")) for name in self.addressees or ADDRESSEES)
        called = rf"(?:@?(?:{names})|<@[!&]?(?:{names})>)(?![\w'-])"
        start = re.match(rf"{_SAYS['greeting'].pattern}{called}[\s,:;!.]*", text, re.IGNORECASE)
        if start is not None:
            return text[start.end() :], True
        inside = re.search(rf"(?<!\s)\s*,\s*{called}\s*(?:,|[.!?]*$)", text, re.IGNORECASE)
        if inside is not None:
            return f"{text[: inside.start()]} {text[inside.end() :].lstrip()}".strip(), True
        return (text, False) if self.addressees is None else (None, False)

    def who(self, words: str) -> str | None:
        """The id of the speaker whom words begin with, or else the name that they begin with."""
        if self.people is not None:
            found = [each.person.id for each in found_in(words, self.people) if each.start == 0]
            first = name_key(words.partition(" ")[0].removesuffix("'s"))
            everybody = self.people.everybody if words[:1].isupper() else ()
            called = {each.id for each in everybody for name in each.names if name_key(name).split(" ")[0] == first}
            if found or len(called) == 1:
                return (found or [*called])[0]
        name = re.match(r"<@[^>]+>|@[\w.-]+", words)
        names = [name.group()] if name is not None else [each for each in names_in(words) if words.startswith(each)]
        return names[0].removesuffix("'s") if names else None

    def anybody(self, words: str) -> str | None:
        """The same, or the capitalized name of somebody who has not spoken."""
        name = re.match(r"[^\W\d_a-z][\w-]*(?: [^\W\d_a-z][\w-]*)*", words)
        return self.who(words) or (name.group() if name and name.group().casefold() not in NOT_NAMES else None)

    def about(self, words: str) -> str | None:
        """Whom a note or a question is about: the writer where it says I, else the speaker it begins with."""
        if _SAYS["first_person"].search(words):
            return self.me
        named = self.who(words)
        known = self.people is None or (named is not None and self.people.by_id(named) is not None)
        return named if known or words.startswith(("@", "<@")) else None

    @property
    def me(self) -> str | None:
        """The writer's id, or the words for the writer."""
        person = self.people.who(self.writer) if self.people is not None and self.writer is not None else None
        return self.writer if person is None else person.id

    def request(self, kind: IntentKind, words: str, about: str | None = None, made: Made = Made.RULES) -> Intent:
        """The intent to remember or forget words."""
        alias = alias_in(words, self.people) if kind is IntentKind.REMEMBER else None
        if alias is None:
            return Intent(kind, words, made, about=about or self.about(words))
        of = alias.of.id if isinstance(alias.of, KnownPerson) else alias.of
        return Intent(kind, words, made, about=of or about or self.me, alias=alias.name)

    def question(self, words: str, made: Made = Made.RULES) -> Intent:
        """The intent to know about somebody; none where the words name nobody."""
        if not words or _SAYS["writer"].match(words):
            return Intent(IntentKind.ABOUT_ME, words if " " in words else "", made, about=self.me)
        about = self.anybody(words)
        if about is None:
            return Intent(IntentKind.NONE, "", made)
        return Intent(IntentKind.ABOUT, words if " " in words and "'s " in words else "", made, about=about)


@dataclass(frozen=True, slots=True)
class Intents:
    """Reads what texts ask for. Thread-safe."""

    engine: Engine
    calls: CheckedCalls

    def intent(
        self,
        tenant: TenantId,
        text: str,
        owner: str | None = None,
        *,
        speaker: str | None = None,
        addressees: Sequence[str] | None = None,
    ) -> Intent:
        """What a text that is addressed to the assistant requests of its memory: to remember or forget something, what
        is known about the writer or somebody else, or nothing. Nothing is done about it.

        ``text`` has at most 8,192 characters. ``owner`` is the memory whose speakers ``about`` of the result may mean,
        ``speaker`` who wrote the text (an id or a name). With ``addressees`` (at most 16 names or ids of the assistant,
        such as "bot") a text without one of them requests nothing; without, any text is taken as addressed. With a chat
        model one call reads it (a second one when the answer can't be used); else, or when the model is unavailable,
        rules do, and ``degraded`` says so in the latter case. Raises InvalidInput, StoreUnavailable.
        """
        if not isinstance(text, str) or len(text) > MAX_CHARS:
            raise InvalidInput(f"Give a text of at most {MAX_CHARS} characters.", code="invalid_text")
        chat = Chat(
            None if owner is None else self._people(tenant, checked_name(owner, "owner")),
            None if speaker is None else checked_name(speaker, "speaker"),
            None if addressees is None else _names(addressees),
        )
        text = self.calls.redactor.masked(clean(text).strip())[0]
        said = chat.said(text)[0]
        if not said or not self.calls.possible:
            return read_by_rules(text, chat)

        def check(answer: IntentAnswer) -> Intent:
            return _checked(answer, said, chat)

        read, why = self.calls.answer(tenant, None, _SYSTEM, {"text": said}, IntentAnswer, check, "intent")
        if read is not None:
            return read
        return replace(read_by_rules(text, chat), degraded=(f"The text was read by rules: {why}.",))

    def _people(self, tenant: TenantId, owner: str) -> People:
        with PeopleRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
            return People(owner, rows.speakers(forest.id), forest.display_name) if forest else People(owner, ())


def _names(addressees: Sequence[str]) -> tuple[str, ...]:
    if isinstance(addressees, str) or not 0 < len(addressees) <= MAX_ADDRESSEES:
        raise InvalidInput(f"Give 1 to {MAX_ADDRESSEES} names as addressees.", code="invalid_addressees")
    return tuple(checked_name(name, "addressees") for name in addressees)


def read_by_rules(text: str, chat: Chat = Chat()) -> Intent:
    """What a text requests, by patterns over its sentences: the first sentence that requests something counts."""
    said, named = chat.said(text)
    after = _SAYS["afterwards"].fullmatch(said) if said and named else None
    if after is not None:
        return chat.request(IntentKind.REMEMBER, _trimmed(after["object"]))
    for sentence in sentences(said or ""):
        found = _requested(sentence.strip(), chat) or (_queried(sentence.strip(), chat) if named else None)
        if found is not None and found.kind is not IntentKind.NONE:
            return found
    noted = chat.request(IntentKind.REMEMBER, _trimmed(said)) if said and named else None
    return noted if noted is not None and noted.alias else Intent(IntentKind.NONE, "", Made.RULES)


def _trimmed(words: str) -> str:
    """Words without punctuation at their ends, and without quotes around all of them."""
    words = words.strip(_END)
    quoted = _WHOLE.fullmatch(words)
    return quoted["words"].strip(_END) if quoted else words


def _requested(said: str, chat: Chat) -> Intent | None:
    about = _SAYS["about"].match(said)
    if about is not None:
        return chat.question(_trimmed(about["object"] or about["else"] or ""))
    theirs = _SAYS["about_somebody"].match(said)
    if theirs is not None and (whom := chat.anybody(theirs["about"])):
        return chat.request(IntentKind.REMEMBER, _trimmed(theirs["object"]), whom)
    for kind, pattern, nothing in (
        (IntentKind.REMEMBER, _SAYS["remember"], _SAYS["remember_nothing"]),
        (IntentKind.FORGET, _SAYS["forget"], _SAYS["forget_nothing"]),
    ):
        found = pattern.match(said)
        if found is None:
            continue
        what, before = found["object"], said[: found.start("object")].rstrip().casefold()
        if kind is IntentKind.FORGET and before.endswith("about"):
            what = re.split(r"[,;]", what)[0]
        for ending in ("polite_end", "from_memory"):
            what = _trimmed(_SAYS[ending].sub("", _trimmed(what)))
        is_question = kind is IntentKind.REMEMBER and said.endswith("?") and not _SAYS["polite_question"].match(said)
        noun = before.endswith((" that", " this")) and not _SAYS["clause"].match(what)
        if what and not is_question and not noun and not nothing.match(what):
            own = _SAYS["own_words"].search(before) and chat.about(what) is None
            return chat.request(kind, what, chat.me if own else None)
    for name, pattern in REQUESTS.elsewhere.items():
        found = pattern.match(said)
        if found is not None and not said.endswith("?"):
            return chat.request(IntentKind(name), _trimmed(next(filter(None, found.groups()))))
    return None


def _queried(said: str, chat: Chat) -> Intent | None:
    """What a question to the assistant by name wants to know of people."""
    who = _SAYS["who"].match(said)
    if who is not None and (found := chat.question(_trimmed(who["object"]))).kind is not IntentKind.NONE:
        return found
    if not _SAYS["question"].fullmatch(said) or _SAYS["itself"].search(said):
        return None
    named = found_in(said, chat.people) if chat.people is not None else []
    if not named and not _SAYS["ours"].search(said):
        return None
    about = named[0].person.id if named else chat.about(said)
    return Intent(IntentKind.RECALL, _trimmed(said), Made.RULES, about=about)


def _checked(answer: IntentAnswer, text: str, chat: Chat = Chat()) -> Intent:
    """The intent of an answer. Raises ContentFault for words that are not in the text, or are missing."""
    what, about, alias = (
        _trimmed(" ".join(clean(each).split())) for each in (answer.object, answer.about, answer.alias)
    )
    kind = answer.kind
    if kind is IntentKind.NONE:
        return Intent(IntentKind.NONE, "", Made.MODEL)
    for name, words in (("object", what), ("about", about), ("alias", alias)):
        if _folded(words) not in _folded(text):
            raise ContentFault(f'"{name}" is not a run of words of the text: copy it as it is')
    if not what and kind not in (IntentKind.ABOUT, IntentKind.ABOUT_ME):
        raise ContentFault(f'"object" is empty for the kind "{kind}"')
    if not about and kind is IntentKind.ABOUT:
        raise ContentFault(f'"about" is empty for the kind "{kind}"')
    person = chat.who(about) or about if about else None
    if kind in (IntentKind.ABOUT, IntentKind.ABOUT_ME):
        return Intent(kind, what, Made.MODEL, about=person or chat.me)
    found = chat.request(kind, what, person, Made.MODEL)
    if kind is not IntentKind.REMEMBER or not alias or found.alias:
        return found
    other = chat.people.who(alias) if chat.people is not None and about and chat.people.who(about) is None else None
    of, name = (found.about, alias) if other is None else (other.id, about)
    if len(name.split()) > MAX_NAME_WORDS:
        raise ContentFault('"alias" is longer than a name: copy the name alone')
    return replace(found, about=of, alias=name)


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text.casefold()).replace("\u2019", "'")
