"""Commands of the assistant: windows, running sessions, days, topics, notes, profiles, intents, and whole contexts."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_store
from memforest_core.cli.toolkit.operating import (
    TIMEOUT_S,
    ActorOption,
    DryRunOption,
    NoWaitOption,
    TimeoutOption,
    YesOption,
    actor_named,
    confirm,
)
from memforest_core.cli.toolkit.options import (
    CursorOption,
    DataOption,
    JsonOption,
    LimitOption,
    OwnerOption,
    argument,
    option,
)
from memforest_core.cli.toolkit.output import (
    Exit,
    answered,
    console,
    minute,
    named,
    plain_table,
    print_degraded,
    print_json,
    print_page,
    printable,
    shortened,
)
from memforest_core.domain.pages import Document, Page
from memforest_core.domain.turns import LATEST_SESSION
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from rich.table import Table

    from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
    from memforest_core.assistant.context.records import Context
    from memforest_core.assistant.conversation_window.records import HeldItems, ItemInput, SessionWindow
    from memforest_core.assistant.profile.records import Forgetting, FoundFact, Intent, Profile, Turns
    from memforest_core.assistant.topics.records import Topic, TopicContext, TopicStats, TopicTurn
    from memforest_core.assistant.topics.service import TopicService
    from memforest_core.domain.ids import TenantId
    from memforest_core.ingest.accept.records import RunningSession, SessionProgress

    Topics = tuple[TopicService, TenantId]

TEXT_CHARS = 120
OFF = "Windows are switched off: MEMFOREST_WINDOW__ENABLED."

Methods = Callable[[str], Callable[..., Any]]
"""Gives a method by its name."""


@contextmanager
def _memory(data: Path | None) -> Iterator[Methods]:
    with opened_memory(data) as memory:
        yield partial(getattr, memory)


@contextmanager
def _client(data: Path | None) -> Iterator[Methods]:
    with opened_store(data) as store:
        yield partial(getattr, store.client)


@contextmanager
def _new_client(data: Path | None) -> Iterator[Methods]:
    with opened_store(data, create=True) as store:
        yield partial(getattr, store.client)


@contextmanager
def _topics(data: Path | None) -> Iterator[Methods]:
    from memforest_core.assistant.topics.service import TopicService

    with opened_store(data) as store:
        topics = TopicService(store.engine, store.client.settings)
        yield lambda name: partial(getattr(topics, {"topic_list": "topics"}.get(name, name)), store.tenant)


class Given(NamedTuple):
    """A parameter of a command, under the name that the method has for it."""

    name: str
    kind: Any
    default: Any = inspect.Parameter.empty


def _argument(name: str, text: str, metavar: str, kind: Any = str, default: Any = inspect.Parameter.empty) -> Given:
    return Given(name, Annotated[kind, argument(text, metavar=metavar)], default)


def _option(name: str, text: str, kind: Any = str | None, default: Any = None) -> Given:
    return Given(name, Annotated[kind, option(text) if default is None else typer.Option(help=text)], default)


OWNER = Given("owner", OwnerOption)
CURSOR = Given("cursor", CursorOption, None)
LIMIT = Given("limit", LimitOption, 100)
LATEST = "The session's id; LATEST: the one that runs or got a turn last."
ABOUT = "Whom it is about, by id or name; the owner when not given."


class Command(NamedTuple):
    """A command that calls a method, and prints its result as JSON or by ``show``."""

    name: str
    help: str
    show: Callable[[Any], None]
    given: tuple[Given, ...]

    def made(
        self, opening: Callable[[Path | None], AbstractContextManager[Methods]], prefix: str = ""
    ) -> Callable[..., None]:
        """The command as typer reads it; ``opening`` gives the method, whose name is its own after a ``prefix``."""
        given = (*self.given, Given("data", DataOption, None), Given("as_json", JsonOption, False))

        def run(*, data: Path | None, as_json: bool, **values: Any) -> None:
            with opening(data) as methods:
                found = methods(prefix + self.name)(**values)
            owner = values.get("owner") if hasattr(found, "owner_known") else None
            if as_json and isinstance(found, Page):
                items = [each.to_dict() if isinstance(each, Document) else each for each in found.items]
                print_json(replace(found, items=tuple(items)))
            elif not answered(found, owner, as_json=as_json):
                self.show(found)

        run.__annotations__ = {each.name: each.kind for each in given}
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
            [
                inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.kind)
                for each in given
            ]
        )
        run.__name__, run.__doc__ = self.name, self.help
        return run


def commands() -> list[Callable[..., None] | typer.Typer]:
    """All commands, and groups of them."""
    of_sessions = "Start, switch and close the session of an app without session ids."
    sessions = typer.Typer(name="session", help=of_sessions, no_args_is_help=True)
    of_topics = "What an owner's conversations are about, and how hot each topic is."
    topics = typer.Typer(name="topics", help=of_topics, no_args_is_help=True)
    for each in SESSIONS:
        opening = _new_client if each.name == "start" else _client
        sessions.command(each.name)(each.made(opening, "session_"))
    for each in TOPICS:
        topics.command(each.name)(each.made(_topics, "topic_"))
    return [sessions, topics, remember, forget_words, window_put, *(each.made(_memory) for each in READING)]


def _show_day(found: DayDigest) -> None:
    out = console()
    if not found.made:
        out.print(f"{found.day}: nothing was said." if not found.turns else f"{found.day}: no digest.")
    for each in found.speakers:
        out.print(f"{printable(each.name)}: {printable(each.text)}")
    print_degraded(found.degraded)
    if found.made_at is not None:
        newer = f", {found.new_turns} have come since" if found.new_turns else ""
        model = f" by {printable(found.model)}" if not found.extractive else ""
        made = f"{found.source}{model}, {minute(found.made_at)} UTC"
        out.print(f"{found.day} ({found.time_zone}): {found.turns} turns{newer}; {made}.", style="dim")


def _show_period(found: PeriodDigest) -> None:
    out = console()
    out.print(printable(found.text) if found.text else "Nothing was said.")
    print_degraded(found.degraded)
    if found.missing:
        out.print(f"{len(found.missing)} days have no digest yet: ask again.", style="yellow")
    if found.first is not None:
        place = f"{found.first} to {found.last} ({found.time_zone})"
        out.print(f"{place}: {found.turns} turns; {found.source or 'nothing made'}.", style="dim")


def _show_days(page: Page[DayDigest]) -> None:
    table = plain_table("day", "turns", "made", "speaker", "text", right=("turns",), whole=("day", "made"))
    for item in page.items:
        lines = [(each.name, each.text) for each in item.speakers] or [("", "(not made yet)")]
        for at, (name, text) in enumerate(lines):
            first = (str(item.day), str(item.turns), item.source) if at == 0 else ("", "", "")
            table.add_row(*first, printable(name), printable(text))
    print_page(page, table)


def _show_summarized(made: DayDigest | SessionProgress) -> None:
    from memforest_core.assistant.calendar.records import DayDigest

    if isinstance(made, DayDigest):
        _show_day(made)
    else:
        console().print(f"The session is at stage {made.stage.value}; its summaries are due.")


def _left_out(reasons: Iterable[tuple[str, str]]) -> str:
    counts = Counter(f"{what} ({why})" for what, why in reasons)
    return "; left out: " + ", ".join(f"{count} {what}" for what, count in counts.items()) if counts else ""


def _show_window(shown: SessionWindow) -> None:
    out = console()
    if not shown.enabled:
        out.print(OFF)
        return
    table = plain_table("part", "turns", "tokens", "text", right=("tokens",), whole=("part",))
    for part in shown.parts:
        place = f"{part.first + 1}" if part.first == part.last else f"{part.first + 1}-{part.last + 1}"
        kind = f"{part.kind.value} ({part.source})" if part.source else part.kind.value
        table.add_row(kind, place, str(part.tokens), printable(part.text))
    out.print(table)
    print_degraded(shown.degraded)
    missing = _left_out((each.kind.value, each.reason.value) for each in shown.left_out)
    used = f"{shown.tokens} of {shown.max_tokens} tokens, {shown.turns} turns{missing}."
    out.print(f"Session {printable(shown.session_id)}: {used}", style="dim")


def _show_held(held: HeldItems) -> None:
    new = f"{held.added} new, {held.unknown} unknown, {held.fallen} fell out"
    console().print(f"Session {printable(held.session_id)} has {held.held} items: {new}." if held.enabled else OFF)


def _show_running(found: RunningSession | None) -> None:
    if found is None:
        console().print("No session runs.")
    else:
        last = "" if found.last_at is None else f", the last one of {minute(found.last_at)}"
        console().print(f"{printable(found.session_id)}: {found.turns} turns{last}.")


def _show_context(made: Context) -> None:
    out = console()
    for line in made.text.splitlines():
        out.print(f"{'  ' if line.startswith('  ') else ''}{printable(line)}")
    print_degraded(made.degraded)
    used = ", ".join(f"{section.value} {tokens}" for section, tokens in made.section_tokens.items()) or "nothing"
    missing = _left_out((each.section.value, each.why.value) for each in made.left_out)
    out.print(f"{made.tokens} of {made.max_tokens} tokens: {used}{missing}.", style="dim")


def _topics_table(found: Sequence[Topic]) -> Table:
    right = ("facts", "turns", "accesses", "priority")
    table = plain_table("topic", "title", "tags", *right, "temperature", "last said", right=right, whole=("topic",))
    for each in found:
        table.add_row(
            str(each.id),
            printable(each.title),
            printable(", ".join(each.tags)),
            str(each.facts),
            str(each.turns),
            str(each.accesses),
            f"{each.priority:.3f}",
            each.temperature.value,
            "" if each.last is None else f"{each.last:%Y-%m-%d}",
        )
    return table


def _show_topics(page: Page[Topic]) -> None:
    print_page(page, _topics_table(page.items))


def _show_topic(topic: Topic) -> None:
    console().print(_topics_table([topic]))


def _show_messages(made: TopicContext) -> None:
    table = plain_table("role", "content")
    for message in made.messages:
        table.add_row(message["role"], printable(message["content"]))
    console().print(table)
    console().print(f"{made.tokens} of {made.max_tokens} tokens; {made.left_out} turns left out.", style="dim")


def _show_history(page: Page[TopicTurn]) -> None:
    table = plain_table("session", "turn", "said", "speaker", "text", whole=("said",))
    for item in page.items:
        turn = item.turn
        speaker, text = printable(turn.name or turn.role.value), shortened(turn.content, TEXT_CHARS)
        table.add_row(named(item.session_id), printable(turn.id), minute(turn.occurred_at), speaker, text)
    print_page(page, table)


def _show_stats(found: TopicStats) -> None:
    _show_topic(found.topic)
    table = plain_table("", "")
    for name, value in {
        "sessions": found.sessions,
        "text bytes": found.text_bytes,
        "stored bytes": found.stored_bytes,
        "compressed turns": found.compressed_turns,
        "points": found.points,
        "cold points": found.points_cold,
        "cold since": minute(found.cold_since),
    }.items():
        table.add_row(name, str(value))
    console().print(table)


def _show_forgotten(forgotten: Forgetting) -> None:
    out = console()
    if forgotten.found:
        out.print("Would be forgotten:" if forgotten.dry_run else "Forgotten:")
        _print_facts(forgotten.facts)
    else:
        out.print("Nothing was found that these words mean.")
    if forgotten.others:
        out.print("Near these words, not deleted:", style="dim")
        _print_facts(forgotten.others)
    for title, turns in (("Turns that go", forgotten.turns), ("Turns that say it too and are stored", forgotten.left)):
        if turns:
            shown = ", ".join(printable(f"{turn.session_id}/{turn.turn_id}") for turn in turns)
            out.print(f"{title}: {shown}")
    for task in forgotten.operations:
        out.print(f"Operation {task}: memforest operations shows it.", style="dim")
    if any(not receipt.clean for receipt in forgotten.receipts):
        out.print("References are left: ask for it again.")
    print_degraded(forgotten.degraded)


def _print_facts(facts: Sequence[FoundFact]) -> None:
    table = plain_table("fact", "near", "text", right=("near",), whole=("fact",))
    for fact in facts:
        table.add_row(str(fact.id), f"{fact.similarity:.2f}", shortened(fact.text, TEXT_CHARS))
    console().print(table)


def _show_profile(found: Profile) -> None:
    out = console()
    out.print(printable(found.text) if found.text else f"Nothing is known of {printable(found.about)}.")
    print_degraded(found.degraded)
    by = "a list" if found.made.value == "rules" else "stored" if found.cached else "written now"
    more = ", more were left out" if found.truncated else ""
    out.print(f"{len(found.states)} states{more}; {by}.", style="dim")


def _show_intent(found: Intent) -> None:
    console().print(found.kind.value + (f": {printable(found.object)}" if found.object else ""))
    print_degraded(found.degraded)


DATE = _argument("date", "A day, like 2026-11-22, in the owner's time zone.", "DATE")
PERIOD = _argument("period", "A month (2026-11), a year (2026), or life.", "PERIOD")
DAYS = _option("limit", "Days of one page, 1 to 1,000.", int, 30)
DAY = _option("day", "Make the digest of this day.")
CELL = _option("session", "Extract the last cell of this session and refresh it.")
LatestArgument = Annotated[str, typer.Argument(help=LATEST, metavar="[SESSION]")]
SESSION = Given("session_id", LatestArgument, LATEST_SESSION)
WINDOW_TOKENS = _option("max_tokens", "Of the window; the setting window.max_tokens unless given.", int | None)
LAST_TURNS = _option("last_turns", "Last turns word for word; the setting window.last_turns.", int | None)
OF_QUESTION = "What is to be answered; the last turn of a user unless given."
QUESTION = _argument("question", OF_QUESTION, "[QUESTION]", str | None, None)
OF_SESSION = _option("session", LATEST, str, LATEST_SESSION)
SPEAKER = _option("speaker", "Whom the profile is about and whose words are looked for.")
CHANNEL = _option("channel", "Only sessions of this channel.")
CONTEXT_TOKENS = _option("max_tokens", "Of the whole; the setting context.max_tokens unless given.", int | None)
WRITE = _option("write", "Let the model write a text that is not stored yet.", bool, True)
TEXT = _argument("text", "What somebody wrote to an assistant.", "TEXT")
READING = (
    Command("today", "Print what happened today, speaker by speaker.", _show_day, (OWNER,)),
    Command("day", "Print what happened on a day, speaker by speaker.", _show_day, (DATE, OWNER)),
    Command("week", "Print one text of the six days before today.", _show_period, (OWNER,)),
    Command("period", "Print one text of a month, a year, or the whole life.", _show_period, (PERIOD, OWNER)),
    Command(
        "days",
        "List an owner's days on which something was said, the newest first, with their digests.",
        _show_days,
        (OWNER, DAYS, CURSOR),
    ),
    Command(
        "summarize", "Summarize a day or a session now, whether it is due or not.", _show_summarized, (OWNER, DAY, CELL)
    ),
    Command(
        "window",
        "Print a session as a model should see it: the last turns, older ones as summaries, and what recall found.",
        _show_window,
        (OWNER, SESSION, WINDOW_TOKENS, LAST_TURNS),
    ),
    Command(
        "context",
        "Print what goes into the prompt of one chat turn: profile, days, evidence and the running session.",
        _show_context,
        (OWNER, QUESTION, OF_SESSION, SPEAKER, CHANNEL, CONTEXT_TOKENS),
    ),
    Command("profile", "Print what is known of somebody now.", _show_profile, (OWNER, _option("about", ABOUT), WRITE)),
    Command(
        "intent",
        "Say what a text wants of the memory: remember, forget, about_me or none. Nothing is done about it.",
        _show_intent,
        (TEXT,),
    ),
)
ITS_SESSION = _argument("session_id", "The session's id.", "SESSION")
OPTIONAL_SESSION = _argument("session_id", "The session's id.", "[SESSION]", str | None, None)
SUMMARIZE = _option("summarize", "Extract its last cell and refresh its summaries at once.", bool, True)
SESSIONS = (
    Command("start", "Begin a session; its id is made unless given.", _show_running, (OWNER, OPTIONAL_SESSION)),
    Command("switch", "Go on with a session of before.", _show_running, (ITS_SESSION, OWNER)),
    Command(
        "close", "Close the session that runs, or the named one.", _show_running, (OWNER, OPTIONAL_SESSION, SUMMARIZE)
    ),
    Command("current", "Print which session runs.", _show_running, (OWNER,)),
)
TOPIC = _argument("topic", "The topic's id.", "TOPIC")
BOTH = (_argument("a", "The topic's id.", "TOPIC"), _argument("b", "The topic that becomes part of it.", "OTHER"))
TAGS = _argument("tags", "The tags that it has from now on; none: no tags.", "[TAGS]...", list[str], [])
TOPIC_TOKENS = _option("max_tokens", "Of all messages; the setting topics.context_tokens.", int | None)
COLD = _option("include_compressed", "Also the turns of a cold topic.", bool, True)
TOPICS = (
    Command(
        "list",
        "List an owner's topics, the one that reaches furthest in time first.",
        _show_topics,
        (OWNER, LIMIT, CURSOR),
    ),
    Command(
        "context",
        "Print a topic as messages for a prompt: its summary, then its turns. Warms it.",
        _show_messages,
        (TOPIC, OWNER, TOPIC_TOKENS),
    ),
    Command(
        "history",
        "Print the turns that say a topic's facts, in the order of time. Warms it.",
        _show_history,
        (TOPIC, OWNER, COLD, LIMIT, CURSOR),
    ),
    Command("stats", "Print a topic's counts: turns, dates, accesses, bytes, points.", _show_stats, (TOPIC, OWNER)),
    Command("tag", "Give a topic tags, instead of those it has.", _show_topic, (TOPIC, OWNER, TAGS)),
    Command("merge", "Make one topic of two.", _show_topic, (*BOTH, OWNER)),
)
"""Commands that only call a method and print what it returns."""

AboutOption = Annotated[str | None, option(ABOUT)]


def window_put(
    owner: OwnerOption,
    session: LatestArgument = LATEST_SESSION,
    fact: Annotated[list[str] | None, option("A fact's id; again for more.")] = None,
    turn: Annotated[
        list[str] | None,
        typer.Option(help="SESSION TURN: the ids of a session and a turn, with a space; again for more."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put facts and turns that recall found into a session's window, by reference."""
    items: list[ItemInput] = [*(fact or ())]
    for each in turn or ():
        of_session, space, of_turn = each.rpartition(" ")
        if not space:
            raise InvalidInput("Give --turn as the ids of a session and a turn, with a space.", code="invalid_items")
        items.append((of_session, of_turn))
    with opened_memory(data) as memory:
        held = memory.window_put(owner, session, items)
    if not answered(held, as_json=as_json):
        _show_held(held)


def remember(
    text: Annotated[str, typer.Argument(help='What to keep, such as "I moved to Miami".')],
    owner: OwnerOption,
    about: AboutOption = None,
    at: Annotated[str | None, option("The timestamp; now unless given.")] = None,
    session: Annotated[str | None, option("The note's own id; a new one when not given.")] = None,
    wait: Annotated[str, typer.Option(help="none, raw, facts or summaries: the stage to wait for.")] = "none",
    timeout: TimeoutOption = TIMEOUT_S,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a note: its facts are pinned, and a later one takes the turn of an earlier one."""
    with opened_store(data, create=True) as store:
        handle = store.client.remember(owner, text, about, at=at, session_id=session, wait=wait, timeout_s=timeout)
        progress = handle.status()
    if as_json:
        print_json({"owner": owner, "session": handle.session_id, "progress": progress})
    else:
        console().print(f"Stored as {named(handle.session_id)}: {progress.stage.value}.")


def forget_words(
    words: Annotated[str, typer.Argument(help='What to forget, such as "where I work".')],
    owner: OwnerOption,
    turns: Annotated[
        str, typer.Option(help="Turns that say it: alone (those that say nothing else go), all, or none.")
    ] = "alone",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the facts that words name, and say which. It can't be undone: --dry-run shows them first.

    The exit code is 1 when nothing was found, or a reference was left. To delete by ids: memforest forget.
    """
    if not dry_run:
        confirm(f"Delete this from the memory of {printable(owner)} for good?", yes=yes, as_json=as_json)
    choices: dict[str, Any] = {"turns": cast("Turns", turns), "actor": actor_named(actor)}
    with opened_memory(data) as memory:
        forgotten = memory.forget(owner, words, dry_run, **choices, wait=not no_wait, timeout_s=timeout)
    if not answered(forgotten, owner, as_json=as_json):
        _show_forgotten(forgotten)
    if not forgotten.found or not all(receipt.clean for receipt in forgotten.receipts):
        raise typer.Exit(Exit.FAILED)
