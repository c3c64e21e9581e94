"""What callers do: each action is chosen from the model, and changes the model when its outcome is known.

What is done to an owner as a whole (forget everything, merge, export, import) excludes others of its kind on that
owner, never what is said, recalled or deleted in single sessions meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.soak.known import DAY_S, FIRST_DAY, TURN_S, Fate, Known, Said, Session, gone
from memforest_core.assistant.profile.persons import TURN as NOTE

Reply = dict[str, Any]
SHOWN = ("window", "day", "week", "month", "profile", "context")
"""What ``show`` reads."""
LONGEST = 5
"""Turns that are ingested at once."""
DONE_BEFORE = {"not_found", "forest_gone", "same_fact"}
"""Errors that a call may get when a process that was killed had already done its first try."""


class Action:
    """One call."""

    kind = ""
    do = ""
    """The caller's name for it."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def arguments(self) -> dict[str, Any]:
        """The arguments of the call; an owner's sessions move when it is merged, so they are computed at each try."""
        raise NotImplementedError

    def done(self, reply: Reply) -> list[str]:
        """The call returned: change the model. What the answer shows that must not be."""
        raise NotImplementedError

    def refused(self, code: str) -> list[str]:
        """The call was refused for good. What that shows that must not be."""
        return [] if code in DONE_BEFORE else [f"refused: {code}"]

    def on_the_move(self) -> bool:
        """Whether what it is about is being merged: what found nothing is tried again."""
        return False

    def end(self) -> None:
        """Let others have what this was about."""


class Say(Action):
    """Ingest a session."""

    kind = do = "ingest"

    def __init__(self, known: Known, owner: str, session: Session, said: Sequence[Said]) -> None:
        super().__init__(known)
        self.owner, self.session, self.said = owner, session, said
        session.busy = True

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.owner, "session": self.session.id, "turns": [each.turn for each in self.said]}

    def done(self, reply: Reply) -> list[str]:
        del reply
        for each in self.said:
            each.fate = Fate.EITHER if each.doubted else Fate.KNOWN
        return []

    def refused(self, code: str) -> list[str]:
        gone(self.said)
        return [f"refused: {code}"]

    def end(self) -> None:
        self.session.busy = False


class Append(Say):
    """Append one turn to a session."""

    kind = do = "append"

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.owner, "session": self.session.id, "turn": self.said[0].turn}


class Remember(Say):
    """Keep a note."""

    kind = do = "remember"

    def arguments(self) -> dict[str, Any]:
        turn = self.said[0].turn
        said = {"text": turn["content"], "at": turn["timestamp"]}
        return {"owner": self.owner, "session": self.session.id, **said}


class Recall(Action):
    """Ask for something that was said."""

    kind = do = "recall"

    def __init__(self, known: Known, owner: str, said: Said) -> None:
        super().__init__(known)
        self.owner, self.said = owner, said
        self._gone = {word for each in known.all() if each.fate is Fate.GONE for word in each.words}
        self._gone -= known.allowed()
        self.found = False

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.owner, "question": f"What did the {self.said.word} cost?"}

    def done(self, reply: Reply) -> list[str]:
        self.found = self.said.word in reply["words"]
        if shown := self._gone & set(reply["words"]):
            return [f"{self.kind} shows forgotten words: {sorted(shown)}"]
        return []


class Show(Recall):
    """Read what is derived from the memory and stored: a window, the days, a profile, a context."""

    do = "show"

    def __init__(self, known: Known, session: Session, owner: str, kind: str) -> None:
        super().__init__(known, owner, session.known[0])
        self.kind = kind
        self._session = session

    def arguments(self) -> dict[str, Any]:
        day = FIRST_DAY + self._session.day * DAY_S
        return {"owner": self.owner, "what": self.kind, "session": self._session.id, "at": day}


class InSession(Action):
    """Something that is done to one session, wherever it is by now."""

    def __init__(self, known: Known, session: Session) -> None:
        super().__init__(known)
        self.session, self.owner = session, session.owner
        session.busy = True

    def where(self) -> str | None:
        """Its owner; the one before while nobody knows."""
        self.owner = self.session.owner or self.owner
        return self.owner

    def on_the_move(self) -> bool:
        return self.session.owner != self.owner or self.owner in self.known.moving

    def end(self) -> None:
        self.session.busy = False


class Forget(InSession):
    """Delete a session, some turns, a guest's words or a range of time."""

    do = "forget"

    def __init__(self, known: Known, session: Session, kind: str, target: dict[str, Any], said: Sequence[Said]) -> None:
        super().__init__(known, session)
        self.kind, self._target, self._said = kind, target, said

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.where(), **self._target}

    def done(self, reply: Reply) -> list[str]:
        gone(self._said)
        return [] if reply["clean"] else [f"receipt: {reply}"]

    def refused(self, code: str) -> list[str]:
        gone(self._said)
        return super().refused(code)


class Correct(InSession):
    """Give a fact another text."""

    kind = do = "correct"

    def __init__(self, known: Known, session: Session, said: Said) -> None:
        super().__init__(known, session)
        self._said = said
        self._word = known.word()
        said.corrections.append(self._word)

    def arguments(self) -> dict[str, Any]:
        text = f"It was a {self._word}."
        return {"owner": self.where(), "session": self.session.id, "word": self._said.word, "text": text}

    def done(self, reply: Reply) -> list[str]:
        del reply
        return []


class Whole(Action):
    """Something that is done to owners as a whole."""

    def __init__(self, known: Known, owners: Sequence[str]) -> None:
        super().__init__(known)
        self.owners = owners
        self.covered = [each for owner in owners for session in known.of(owner) for each in session.said]
        for owner in owners:
            known.busy[owner] = self.kind

    def end(self) -> None:
        for owner in self.owners:
            self.known.busy.pop(owner)


class ForgetOwner(Whole):
    """Delete an owner's whole memory."""

    kind, do = "forget-owner", "forget"

    def __init__(self, known: Known, owner: str) -> None:
        super().__init__(known, [owner])
        self._certain = [each for each in self.covered if each.fate is Fate.KNOWN and each.owners == {owner}]
        for each in self.covered:
            each.doubted |= each.fate is Fate.EITHER
            if each.fate is Fate.KNOWN and each not in self._certain:
                # Said while its owner was merged: nobody knows whose memory it is in.
                each.fate, each.doubted = Fate.EITHER, True

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.owners[0], "everything": True}

    def done(self, reply: Reply) -> list[str]:
        gone(self._certain)
        if not self.known.of(self.owners[0]):
            self.known.begun.discard(self.owners[0])
        return [] if reply["clean"] else [f"receipt: {reply}"]

    def refused(self, code: str) -> list[str]:
        gone(self._certain)
        return super().refused(code)


class Merge(Whole):
    """Move one owner's memory into another's."""

    kind = do = "merge"

    def __init__(self, known: Known, source: str, into: str) -> None:
        super().__init__(known, [source, into])
        self._source, self._into = source, into
        known.moving[source] = {into}
        self._certain = [each for each in self.covered if each.owners == {source} and each.fate is Fate.KNOWN]
        for each in self.covered:
            if source in each.owners and each not in self._certain:
                each.owners.add(into)

    def arguments(self) -> dict[str, Any]:
        return {"sources": [self._source], "into": self._into}

    def done(self, reply: Reply) -> list[str]:
        del reply
        self.known.begun.add(self._into)
        for each in self._certain:
            each.owners = {self._into}
        return []

    def refused(self, code: str) -> list[str]:
        # A try that was killed may have merged; where its words are, the end shows.
        for each in self._certain:
            each.owners = {self._source, self._into}
        return super().refused(code)

    def end(self) -> None:
        super().end()
        self.known.moving.pop(self._source)


class Export(Whole):
    """Write an owner's memory to a file."""

    kind = do = "export"

    def __init__(self, known: Known, owner: str, path: Path) -> None:
        super().__init__(known, [owner])
        self._path = str(path)
        self._before = {each: each.fate for each in self.covered}

    def arguments(self) -> dict[str, Any]:
        return {"owner": self.owners[0], "path": self._path}

    def done(self, reply: Reply) -> list[str]:
        """What did not change and is not about to is in the file; the rest may be."""
        del reply
        stored = []
        for session in self.known.sessions:
            said = [each for each in session.said if self.owners[0] in each.owners or each in self._before]
            if said:
                stored.append((session, [(each, self._in_file(session, each)) for each in said]))
        self.known.bundles[self._path] = stored
        return []

    def _in_file(self, session: Session, said: Said) -> Fate:
        # What was not there when it began came later, or had been deleted or refused; what a killed merge moved may
        # be in another memory.
        fates = {self._before.get(said, said.fate if said.fate is Fate.GONE else Fate.EITHER), said.fate}
        here = said.owners == {self.owners[0]}
        certain = said.fate is Fate.GONE or (here and not session.busy)
        return said.fate if len(fates) == 1 and certain else Fate.EITHER


class Import(Whole):
    """Read a file for an owner who has nothing."""

    kind = do = "import"

    def __init__(self, known: Known, path: str, owner: str) -> None:
        super().__init__(known, [owner])
        self._path = path

    def arguments(self) -> dict[str, Any]:
        return {"path": self._path, "owner": self.owners[0]}

    def done(self, reply: Reply) -> list[str]:
        del reply
        self.known.begun.add(self.owners[0])
        for session, content in self.known.bundles.pop(self._path):
            copy = Session(session.id, session.day)
            copy.said = [
                Said(each.word, each.turn, {self.owners[0]}, fate, corrections=list(each.corrections))
                for each, fate in content
            ]
            self.known.sessions.append(copy)
        return []

    def refused(self, code: str) -> list[str]:
        self.known.bundles.pop(self._path)
        return super().refused(code)


class Chooser:
    """Chooses actions at random; its caller has to hold the lock of the model."""

    def __init__(self, known: Known, directory: Path) -> None:
        self._known = known
        self._directory = directory
        self._files = 0
        self._open: list[Session] = []
        self._importing: set[str] = set()

    def choose(self, rng: random.Random, full: bool) -> Action | None:
        """The next action, or None where this draw has nothing to act on; ``full``: say nothing new."""
        names, weights = zip(*((name, weight) for name, weight in _WEIGHTS.items()), strict=True)
        kind = rng.choices(names, weights)[0]
        if full and kind in ("ingest", "append", "remember"):
            kind = "recall"
        return _CHOICES[kind](self, rng)

    def ingest(self, rng: random.Random) -> Action | None:
        owner = rng.choice(self._known.names)
        if self._known.busy.get(owner) == "import":
            return None
        session = self._known.session()
        return Say(
            self._known, owner, session, [self._known.say(session, owner) for _ in range(rng.randint(1, LONGEST))]
        )

    def append(self, rng: random.Random) -> Action | None:
        self._open = [one for one in self._open if one.known and len(one.said) < 2 * LONGEST][-20:]
        ready = [one for one in self._open if one.settled]
        if not ready or rng.random() < 0.3:
            owner = rng.choice(self._known.names)
            if self._known.busy.get(owner) == "import":
                return None
            session = self._known.session()
            self._open.append(session)
        else:
            session = rng.choice(ready)
            owner = session.owner or ""
        return Append(self._known, owner, session, [self._known.say(session, owner)])

    def last(self) -> list[Action]:
        """A session for each owner, whatever became of them: deleted and merged owners can get new sessions."""
        found: list[Action] = []
        for owner in self._known.names:
            session = self._known.session()
            found.append(Say(self._known, owner, session, [self._known.say(session, owner)]))
        return found

    def recall(self, rng: random.Random) -> Action | None:
        session = self._settled(rng)
        if session is None or session.owner is None:
            return None
        return Recall(self._known, session.owner, rng.choice(session.known))

    def remember(self, rng: random.Random) -> Action | None:
        owner = rng.choice(self._known.names)
        if self._known.busy.get(owner) == "import":
            return None
        session = self._known.session()
        return Remember(self._known, owner, session, [self._known.say(session, owner, NOTE)])

    def show(self, rng: random.Random) -> Action | None:
        session = self._settled(rng)
        if session is None or session.owner is None:
            return None
        return Show(self._known, session, session.owner, rng.choice(SHOWN))

    def forget(self, rng: random.Random) -> Action | None:
        session = self._settled(rng)
        if session is None:
            return None
        which = rng.choice(("turns", "session", "speaker", "range"))
        target: dict[str, Any] = {"session": session.id}
        said = session.said
        if which == "turns":
            said = rng.sample(session.known, rng.randint(1, min(2, len(session.known))))
            target["turns"] = [each.turn["id"] for each in said]
        elif which == "speaker":
            speaker = f"guest-{session.id}"
            said = [each for each in session.said if each.turn["speaker_id"] == speaker]
            target = {"speaker": speaker}
            if not any(each.fate is Fate.KNOWN for each in said):
                return None
        elif which == "range":
            first = rng.randrange(len(session.said))
            said = session.said[first : first + 2]
            start = FIRST_DAY + session.day * DAY_S + first * TURN_S
            target = {"since": start, "until": start + 2 * TURN_S}
        return Forget(self._known, session, f"forget-{which}", target, said)

    def correct(self, rng: random.Random) -> Action | None:
        session = self._settled(rng)
        return None if session is None else Correct(self._known, session, rng.choice(session.known))

    def forget_owner(self, rng: random.Random) -> Action | None:
        owner = self._free(rng)
        return None if owner is None else ForgetOwner(self._known, owner)

    def merge(self, rng: random.Random) -> Action | None:
        source, into = self._free(rng), self._free(rng)
        if source is None or into is None or source == into:
            return None
        ids = {session.id for session in self._known.of(source)}
        if any(session.id in ids for session in self._known.of(into)):
            return None
        return Merge(self._known, source, into)

    def export(self, rng: random.Random) -> Action | None:
        owner = self._free(rng)
        if owner is None or len(self._known.bundles) >= _MOST_FILES:
            return None
        self._files += 1
        return Export(self._known, owner, self._directory / f"{self._files}.memforest")

    def import_(self, rng: random.Random) -> Action | None:
        empty = [name for name in self._known.names if name not in self._known.busy and name not in self._known.begun]
        if not self._known.bundles or not empty:
            return None
        paths = [path for path in self._known.bundles if path not in self._importing]
        if not paths:
            return None
        path = rng.choice(paths)
        self._importing.add(path)
        return Import(self._known, path, rng.choice(empty))

    def _settled(self, rng: random.Random) -> Session | None:
        for _ in range(20):
            if self._known.sessions and (session := rng.choice(self._known.sessions)).settled and session.known:
                return session
        return None

    def _free(self, rng: random.Random) -> str | None:
        living = [name for name in self._known.living() if name not in self._known.busy]
        return rng.choice(living) if living else None


_MOST_FILES = 10
_WEIGHTS = {
    "ingest": 30,
    "append": 20,
    "recall": 16,
    "show": 8,
    "remember": 4,
    "forget": 14,
    "correct": 4,
    "forget-owner": 2,
    "merge": 2,
    "export": 3,
    "import": 3,
}
_CHOICES: dict[str, Callable[[Chooser, random.Random], Action | None]] = {
    "ingest": Chooser.ingest,
    "append": Chooser.append,
    "recall": Chooser.recall,
    "show": Chooser.show,
    "remember": Chooser.remember,
    "forget": Chooser.forget,
    "correct": Chooser.correct,
    "forget-owner": Chooser.forget_owner,
    "merge": Chooser.merge,
    "export": Chooser.export,
    "import": Chooser.import_,
}
