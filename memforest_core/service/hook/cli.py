"""``memforest hook``: what coding agents call at the events of their sessions. It never breaks an agent."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, argument, option
from memforest_core.cli.toolkit.output import json_line, report_message, report_progress
from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidInput, InvalidSettings, MemForestError
from memforest_core.service.hook.events import (
    MAX_CHARS,
    RECALLING,
    STORING,
    Agent,
    HookEvent,
    read_event,
    read_transcript,
)

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.remote.remote_memory import RemoteMemForest

    Memory: TypeAlias = MemForest | RemoteMemForest

URL, KEY, OWNER = "MEMFOREST_URL", "MEMFOREST_KEY", "MEMFOREST_OWNER"
CHANNEL_CHARS = 200
"""The last so many characters of a longer path name its project."""
WAIT_S, POLL_S = 120.0, 0.2
LOG = Path("logs", "hook.log")
"""In a data directory: what the last process said that stored without a node; empty when all was well."""
EVENTS: dict[Agent, dict[str, str | None]] = {
    Agent.CLAUDE_CODE: {"SessionStart": "startup|clear|compact", "Stop": None, "PreCompact": None, "SessionEnd": None},
    Agent.CODEX: {"SessionStart": "startup|clear|compact", "Stop": None},
}
"""What ``--print-config`` configures: each event with its matcher. A resumed session has its conversation already."""
FILES = {
    Agent.CLAUDE_CODE: "~/.claude/settings.json, or .claude/settings.json of one project",
    Agent.CODEX: "~/.codex/hooks.json, and trust it with /hooks",
}
TIMEOUT_S = 30
"""Seconds after which the agent goes on without its hook."""


class Harmless(TyperGroup):
    """Ends with 0 whatever goes wrong: exit code 2 of a hook stops the agent."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error is one sentence on stderr."""
        try:
            return super().invoke(ctx)
        except MemForestError as error:
            report_message(error.code, error.message, as_json=False)
        except typer.TyperException as error:
            report_message("usage", error.format_message(), as_json=False)
        except OSError as error:
            said = f"{error.filename or 'A file'} can't be used ({error.strerror or error})."
            report_message("unreadable_file", said, as_json=False)
        raise typer.Exit(0)


app = typer.Typer(
    name="hook", cls=Harmless, help="Remember the sessions of a coding agent: for its hooks.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True)
class Options:
    """Where an agent's sessions go."""

    agent: Agent
    owner: str
    server: str | None
    data: Path | None
    channel: str | None
    max_tokens: int | None
    wait: bool

    @property
    def arguments(self) -> list[str]:
        """The command's arguments that say the same."""
        data = None if self.data is None else self.data.absolute()
        named = ("owner", self.owner), ("server", self.server), ("data", data), ("channel", self.channel)
        given = [*named, ("max-tokens", self.max_tokens)]
        return ["hook", self.agent, *(part for name, value in given if value for part in (f"--{name}", str(value)))]


def hook(
    context: typer.Context,
    notification: Annotated[str | None, argument("What Codex gives to its notify program.")] = None,
    owner: Annotated[str | None, option(f"Whose memory; else ${OWNER}, else the user's name.", "--owner")] = None,
    server: Annotated[str | None, option(f"A server's address, else ${URL}; its key is ${KEY}.", "--server")] = None,
    data: DataOption = None,
    channel: Annotated[str | None, option("The project's name; else its directory.")] = None,
    max_tokens: Annotated[int | None, option("Of the context; context.max_tokens unless given.")] = None,
    wait: Annotated[bool, option("Also start a node if none runs, and wait for facts.", "--wait")] = False,
    print_config: Annotated[bool, option("Print the agent's configuration.", "--print-config")] = False,
) -> None:
    """Store what was said, and print what is remembered at the start of a session.

    Reads the hook's JSON on stdin. Always ends with 0; what went wrong is one sentence on stderr.
    """
    if server is None and data is None:
        server = os.environ.get(URL) or None
    if server is not None and data is not None:
        raise InvalidInput("Give --server or --data, not both.", code="invalid_server")
    owner = owner or os.environ.get(OWNER) or getpass.getuser()
    options = Options(Agent(str(context.info_name)), owner, server, data, channel, max_tokens, wait)
    if print_config:
        _print_config(options)
        return
    raw = sys.stdin.buffer.read() if notification is None else notification.encode()
    event = read_event(options.agent, raw)
    if data is not None and not wait and _is_late(data, event, options, raw):
        return
    with _opened(options) as memory:
        if event.name in RECALLING:
            _print_context(memory, options, event)
        if event.name in STORING:
            _store(memory, options, event)


for agent in Agent:
    app.command(str(agent))(hook)


@contextmanager
def _opened(options: Options) -> Iterator[Memory]:
    """The memory: over HTTP, also of a node that runs in the data directory; else in this process."""
    served = None
    if options.server is not None:
        key = os.environ.get(KEY)
        if not key:
            raise InvalidSettings(f"Set {KEY} to the key that memforest keys create printed.")
        served = options.server, key
    elif options.data is not None:
        from memforest_core.client.embedded.directory import served_at

        served = served_at(options.data)
    if served is None:
        if options.wait and options.data is not None:
            _await_node(options.data)
        with opened_memory(options.data, create=True) as memory:
            yield memory
        return
    with needed("memforest[server]"):
        from memforest_core.client.remote.remote_memory import RemoteMemForest
    with RemoteMemForest(*served) as remote:
        yield remote


def _is_late(data: Path, event: HookEvent, options: Options, raw: bytes) -> bool:
    """Whether the agent need not wait for this event: it has nothing to recall from, or is stored later."""
    from memforest_core.client.embedded.directory import served_at

    if event.name not in RECALLING:
        if served_at(data) is not None:
            return False
        _store_later(options, data, raw)
        return True
    log = data / LOG
    if log.exists() and log.stat().st_size:
        report_progress(f"The last session could not be stored: {log} says why.")
    return not data.exists()


def _store_later(options: Options, data: Path, raw: bytes) -> None:
    """Store in a process of its own, which starts a node: that takes longer than an agent should wait."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / LOG).parent.mkdir(mode=0o700, exist_ok=True)
    # -P: modules of the agent's project are not ours.
    command = [sys.executable, "-P", "-m", "memforest_core.cli", *options.arguments, "--wait"]
    with (data / LOG).open("wb") as output, tempfile.TemporaryFile() as given:
        given.write(raw)
        given.seek(0)
        subprocess.Popen(command, stdin=given, stdout=output, stderr=output, start_new_session=True)  # noqa: S603 - ours


def _await_node(data: Path) -> None:
    """Wait until a node that another hook starts can be reached."""
    from memforest_core.client.embedded.directory import is_open, running_node

    ends = time.monotonic() + WAIT_S
    while is_open(data) and running_node(data) is None and time.monotonic() < ends:
        time.sleep(POLL_S)


def _channel(options: Options, event: HookEvent) -> str:
    return options.channel or event.project[-CHANNEL_CHARS:]


def _store(memory: Memory, options: Options, event: HookEvent) -> None:
    """What the transcript has and the memory has not."""
    place: Any = {"channel": _channel(options, event), "metadata": {"agent": str(options.agent)}}
    place |= {"wait": "facts", "timeout_s": WAIT_S} if options.wait else {}
    if event.transcript is None:
        for turn in event.said:
            memory.append(options.owner, event.session, turn, **place)
        if not event.said and event.name != "SessionStart":
            report_progress("This session has no transcript, so nothing of it is stored.")
        return
    found = read_transcript(options.agent, event.transcript)
    if found.unreadable:
        report_progress(f"{found.unreadable} lines of the transcript are no JSON: they are left out.")
    if found.cut:
        report_progress(f"{found.cut} turns have more than {MAX_CHARS:,} characters: only their beginnings are stored.")
    if found.turns:
        memory.enqueue(options.owner, event.session, found.turns, **place)
    elif event.name == "Stop":
        report_progress(
            "Nothing is stored: the transcript has no turn that can be read. Is this version of memforest old?"
        )


def _print_context(memory: Memory, options: Options, event: HookEvent) -> None:
    """At the start profile, earlier evidence and the project's last session; for a prompt the evidence alone."""
    from memforest_core.assistant.context.records import PREAMBLE, Section, sections

    starts = event.name == "SessionStart"
    session = None if starts and event.source != "compact" else event.session
    made = memory.context(
        options.owner, session, event.prompt or None, channel=_channel(options, event), max_tokens=options.max_tokens
    )
    for sentence in made.degraded:
        report_progress(sentence)
    text = made.text if starts else sections(made.section(Section.EVIDENCE), {})
    if text:
        output = {"hookEventName": event.name, "additionalContext": f"{PREAMBLE}\n\n{text}"}
        print(json_line({"hookSpecificOutput": output}))


def _print_config(options: Options) -> None:
    own = Path(sys.executable).with_name("memforest")
    program = str(own) if own.exists() else shutil.which("memforest") or "memforest"
    call = {"type": "command", "command": shlex.join([program, *options.arguments]), "timeout": TIMEOUT_S}
    hooks: dict[str, Sequence[Any]] = {
        event: [({} if matcher is None else {"matcher": matcher}) | {"hooks": [call]}]
        for event, matcher in EVENTS[options.agent].items()
    }
    print(json_line({"hooks": hooks}))
    report_progress(f"Add this to {FILES[options.agent]}.")
