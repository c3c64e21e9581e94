"""Commands of the assistant: windows, running sessions, days, topics, notes, profiles, intents, and whole contexts."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

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
    from memforest_core.client.api import MemForest
    from memforest_core.client.producer import MemForestClient
    from memforest_core.domain.ids import TenantId
    from memforest_core.ingest.accept.records import RunningSession, SessionProgress

    Topics = tuple[TopicService, TenantId]

TEXT_CHARS = 120
OFF = "Windows are switched off: MEMFOREST_WINDOW__ENABLED."

Opened = TypeVar("Opened")
Found = TypeVar("Found")


def _memory(data: Path | None) -> AbstractContextManager[MemForest]:
    return opened_memory(data)


@contextmanager
def _client(data: Path | None) -> Iterator[MemForestClient]:
    with opened_store(data) as store:
        yield store.client


@contextmanager
def _new_client(data: Path | None) -> Iterator[MemForestClient]:
    with opened_store(data, create=True) as store:
        yield store.client


@contextmanager
def _topics(data: Path | None) -> Iterator[Topics]:
    from memforest_core.assistant.topics.service import TopicService

    with opened_store(data) as store:
        yield TopicService(store.engine, store.client.settings), store.tenant


def _command(
    opening: Callable[[Path | None], AbstractContextManager[Opened]],
    call: Callable[..., Found],
    show: Callable[[Found], None],
) -> Callable[..., None]:
    """A command with the parameters of ``call`` but its first one, which is what ``opening`` gives: its result is
    printed as JSON, or by ``show``."""
    _, *own = inspect.signature(call).parameters.values()
    call.__annotations__ = {each.name: each.annotation for each in own}
    kinds: dict[str, Any] = get_type_hints(call, include_extras=True)
    defaults = {each.name: each.default for each in own} | {"data": None, "as_json": False}
    kinds |= {"data": DataOption, "as_json": JsonOption}

    def run(*, data: Path | None, as_json: bool, **given: Any) -> None:
        with opening(data) as opened:
            found = call(opened, **given)
        owner = given.get("owner") if hasattr(found, "owner_known") else None
        if as_json and isinstance(found, Page):
            items = [each.to_dict() if isinstance(each, Document) else each for each in found.items]
            print_json(replace(found, items=tuple(items)))
        elif not answered(found, owner, as_json=as_json):
            show(found)

    run.__annotations__ = kinds
    run.__doc__, run.__name__ = call.__doc__, call.__name__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name])
            for name, default in defaults.items()
        ]
    )
    return run


def commands() -> list[Callable[..., None] | typer.Typer]:
    """All commands, and groups of them."""
    of_sessions = "Start, switch and close the session of an app without session ids."
    sessions = typer.Typer(name="session", help=of_sessions, no_args_is_help=True)
    of_topics = "What an owner's conversations are about, and how hot each topic is."
    topics = typer.Typer(name="topics", help=of_topics, no_args_is_help=True)
    made: list[Callable[..., None] | typer.Typer] = [sessions, topics, remember, forget_words]
    for call, show in (
        *((today, _show_day), (day, _show_day), (week, _show_period), (period, _show_period), (days, _show_days)),
        *((summarize, _show_summarized), (window, _show_window), (window_put, _show_held)),
        *((profile, _show_profile), (intent, _show_intent), (context, _show_context)),
    ):
        made.append(_command(_memory, call, cast("Callable[[Any], None]", show)))
    for opening, about in ((_new_client, start), (_client, switch), (_client, close), (_client, current)):
        sessions.command()(_command(opening, about, _show_running))
    topics.command("list")(_command(_topics, list_topics, _show_topics))
    for of_topic, show_topic in (
        (topic_context, _show_messages),
        (history, _show_history),
        (stats, _show_stats),
        *((tag, _show_topic), (merge, _show_topic)),
    ):
        name = of_topic.__name__.removeprefix("topic_")
        topics.command(name)(_command(_topics, of_topic, cast("Callable[[Any], None]", show_topic)))
    return made


# Days


def today(memory: MemForest, owner: OwnerOption) -> DayDigest:
    """Print what happened today, speaker by speaker."""
    return memory.today(owner)


def day(
    memory: MemForest,
    date: Annotated[str, typer.Argument(metavar="DATE", help="A day, like 2026-11-22, in the owner's time zone.")],
    owner: OwnerOption,
) -> DayDigest:
    """Print what happened on a day, speaker by speaker."""
    return memory.day(owner, date)


def week(memory: MemForest, owner: OwnerOption) -> PeriodDigest:
    """Print one text of the six days before today."""
    return memory.week(owner)


def period(
    memory: MemForest,
    period: Annotated[str, typer.Argument(help="A month (2026-11), a year (2026), or life.")],
    owner: OwnerOption,
) -> PeriodDigest:
    """Print one text of a month, a year, or the whole life."""
    return memory.period(owner, period)


def days(
    memory: MemForest,
    owner: OwnerOption,
    limit: Annotated[int, typer.Option(help="Days of one page, 1 to 1,000.")] = 30,
    cursor: CursorOption = None,
) -> Page[DayDigest]:
    """List an owner's days on which something was said, the newest first, with their digests."""
    return memory.days(owner, limit=limit, cursor=cursor)


def summarize(
    memory: MemForest,
    owner: OwnerOption,
    day: Annotated[str | None, option("Make the digest of this day.")] = None,
    session: Annotated[str | None, option("Extract the last cell of this session and refresh it.")] = None,
) -> DayDigest | SessionProgress:
    """Summarize a day or a session now, whether it is due or not."""
    return memory.summarize(owner, day=day, session=session)


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


# Windows and running sessions

SessionArgument = Annotated[
    str, typer.Argument(help="The session's id; LATEST: the one that runs or got a turn last.", show_default=True)
]
OptionalSession = Annotated[str | None, argument("The session's id.")]


def window(
    memory: MemForest,
    owner: OwnerOption,
    session: SessionArgument = LATEST_SESSION,
    max_tokens: Annotated[int | None, option("Of the window; the setting window.max_tokens unless given.")] = None,
    last_turns: Annotated[int | None, option("Last turns word for word; the setting window.last_turns.")] = None,
) -> SessionWindow:
    """Print a session as a model should see it: the last turns, older ones as summaries, and what recall found."""
    return memory.window(owner, session, max_tokens=max_tokens, last_turns=last_turns)


def window_put(
    memory: MemForest,
    owner: OwnerOption,
    session: SessionArgument = LATEST_SESSION,
    fact: Annotated[list[str] | None, option("A fact's id; again for more.")] = None,
    turn: Annotated[
        list[str] | None, option("SESSION TURN: the ids of a session and a turn, with a space; again for more.")
    ] = None,
) -> HeldItems:
    """Put facts and turns that recall found into a session's window, by reference."""
    items: list[ItemInput] = [*(fact or ())]
    for each in turn or ():
        of_session, space, of_turn = each.rpartition(" ")
        if not space:
            raise InvalidInput("Give --turn as the ids of a session and a turn, with a space.", code="invalid_items")
        items.append((of_session, of_turn))
    return memory.window_put(owner, session, items)


def start(client: MemForestClient, owner: OwnerOption, session: OptionalSession = None) -> RunningSession:
    """Begin a session; its id is made unless given."""
    return client.session_start(owner, session)


def switch(
    client: MemForestClient, session: Annotated[str, typer.Argument(help="The session's id.")], owner: OwnerOption
) -> RunningSession:
    """Go on with a session of before."""
    return client.session_switch(owner, session)


def close(
    client: MemForestClient,
    owner: OwnerOption,
    session: OptionalSession = None,
    summarize: Annotated[bool, typer.Option(help="Extract its last cell and refresh its summaries at once.")] = True,
) -> RunningSession | None:
    """Close the session that runs, or the named one."""
    return client.session_close(owner, session, summarize=summarize)


def current(client: MemForestClient, owner: OwnerOption) -> RunningSession | None:
    """Print which session runs."""
    return client.session_current(owner)


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


# Contexts


def context(
    memory: MemForest,
    owner: OwnerOption,
    question: Annotated[str | None, argument("What is to be answered; the last turn of a user unless given.")] = None,
    session: Annotated[
        str, typer.Option(help="The session's id; LATEST: the one that runs or got a turn last.")
    ] = LATEST_SESSION,
    speaker: Annotated[str | None, option("Whom the profile is about and whose words are looked for.")] = None,
    channel: Annotated[str | None, option("Only sessions of this channel.")] = None,
    max_tokens: Annotated[int | None, option("Of the whole; the setting context.max_tokens unless given.")] = None,
) -> Context:
    """Print what goes into the prompt of one chat turn: profile, days, evidence and the running session."""
    return memory.context(owner, session, question, speaker, channel, max_tokens)


def _show_context(made: Context) -> None:
    out = console()
    for line in made.text.splitlines():
        out.print(f"{'  ' if line.startswith('  ') else ''}{printable(line)}")
    print_degraded(made.degraded)
    used = ", ".join(f"{section.value} {tokens}" for section, tokens in made.section_tokens.items()) or "nothing"
    missing = _left_out((each.section.value, each.why.value) for each in made.left_out)
    out.print(f"{made.tokens} of {made.max_tokens} tokens: {used}{missing}.", style="dim")


# Topics

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's id.")]


def list_topics(
    opened: Topics, owner: OwnerOption, limit: LimitOption = 100, cursor: CursorOption = None
) -> Page[Topic]:
    """List an owner's topics, the one that reaches furthest in time first."""
    topics, tenant = opened
    return topics.topics(tenant, owner, limit=limit, cursor=cursor)


def topic_context(
    opened: Topics,
    topic: TopicArgument,
    owner: OwnerOption,
    max_tokens: Annotated[int | None, option("Of all messages; the setting topics.context_tokens.")] = None,
) -> TopicContext:
    """Print a topic as messages for a prompt: its summary, then its turns. Warms it."""
    topics, tenant = opened
    return topics.topic_context(tenant, owner, topic, max_tokens=max_tokens)


def history(
    opened: Topics,
    topic: TopicArgument,
    owner: OwnerOption,
    include_compressed: Annotated[bool, typer.Option(help="Also the turns of a cold topic.")] = True,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> Page[TopicTurn]:
    """Print the turns that say a topic's facts, in the order of time. Warms it."""
    topics, tenant = opened
    return topics.topic_history(tenant, owner, topic, include_compressed=include_compressed, limit=limit, cursor=cursor)


def stats(opened: Topics, topic: TopicArgument, owner: OwnerOption) -> TopicStats:
    """Print a topic's counts: turns, dates, accesses, bytes, points."""
    topics, tenant = opened
    return topics.topic_stats(tenant, owner, topic)


def tag(
    opened: Topics,
    topic: TopicArgument,
    owner: OwnerOption,
    tags: Annotated[list[str] | None, argument("The tags that it has from now on; none: no tags.")] = None,
) -> Topic:
    """Give a topic tags, instead of those it has."""
    topics, tenant = opened
    return topics.topic_tag(tenant, owner, topic, tags or ())


def merge(
    opened: Topics,
    topic: TopicArgument,
    other: Annotated[str, typer.Argument(help="The topic that becomes part of it.")],
    owner: OwnerOption,
) -> Topic:
    """Make one topic of two."""
    topics, tenant = opened
    return topics.topic_merge(tenant, owner, topic, other)


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


# Requests in words

AboutOption = Annotated[str | None, option("Whom it is about, by id or name; the owner when not given.")]


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
    with _new_client(data) as client:
        handle = client.remember(owner, text, about, at=at, session_id=session, wait=wait, timeout_s=timeout)
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


def profile(
    memory: MemForest,
    owner: OwnerOption,
    about: AboutOption = None,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Let the model write a text that is not stored yet.")
    ] = True,
) -> Profile:
    """Print what is known of somebody now."""
    return memory.profile(owner, about, write=write)


def intent(
    memory: MemForest, text: Annotated[str, typer.Argument(help="What somebody wrote to an assistant.")]
) -> Intent:
    """Say what a text wants of the memory: remember, forget, about_me or none. Nothing is done about it."""
    return memory.intent(text)


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
