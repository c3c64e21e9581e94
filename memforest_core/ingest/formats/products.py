"""Readers of the exports of assistants and of other memories.

Claude: conversations.json of the data export. Gemini: "My Activity" of Google Takeout as JSON; it has prompts and
answers without conversations, so that a day is a session. Open WebUI: "Export chats", ``history.messages`` is a tree
with ``currentId``. LibreChat: one conversation as JSON. SillyTavern: a chat's JSON lines, the first has its metadata.
Character.AI: ``turns`` with candidates, or the older ``histories``. Letta: an agent file
(https://github.com/letta-ai/agent-file). Zep: edges and messages of its API. hindsight: ``list_memories``. Claude Code:
~/.claude/projects/*/SESSION.jsonl. Codex: ~/.codex/sessions/*/rollout-*.jsonl.

Where questions were changed or answered again, the branch that is shown is read, and without a mark the newest one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memforest_core.domain.message_parts import decoded, item_role, words_of
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.agent_lines import HIDDEN_LINES, own_words
from memforest_core.ingest.formats.api_messages import API_MESSAGES, Conversation
from memforest_core.ingest.formats.export_files import File
from memforest_core.ingest.formats.fields import plain_html, value_of
from memforest_core.ingest.formats.file_items import Refused, Value, list_of, mapping_of, name_of
from memforest_core.ingest.formats.format_table import Format, Found, Reader, each_value, read_each
from memforest_core.ingest.formats.talks import Message, Options, Talk, mark, marks

Raw = Mapping[str, object]


def _some(raw: Raw, names: str) -> object | None:
    """The value of the first of these names that is not empty."""
    return next((found for name in names.split() if (found := value_of(raw, name))), None)


@dataclass(frozen=True, slots=True)
class _Chats:
    """Under which names an assistant's conversations and messages have what is needed."""

    messages: str
    id: str
    title: str
    text: str
    """The content; the first name that has one."""
    role: str
    time: str
    started: str = "created_at createdAt create_time"
    message_id: str = "id"
    parent: str = ""
    shown: str = ""
    """The id of the last message that is shown."""
    speaker: str = ""
    """Who an assistant is: a field, or a name that begins with =."""
    files: str = "attachments files"
    roles: Mapping[str, str] | None = None
    mine: str = ""
    """The owner's name in their messages."""
    owner: str = ""
    parts: Callable[[Raw, object], object] = lambda raw, content: content
    """Makes content parts of a content of the product's own form."""

    def talk(self, value: Value, options: Options) -> Iterator[Talk]:
        """The conversation of an item. Raises InvalidInput for one without messages."""
        conversation = mapping_of(value.content, "A conversation")
        title = value_of(conversation, self.title)
        yield Talk(
            value.position,
            name_of(value_of(conversation, self.id)),
            self.read(_some(conversation, self.messages), value_of(conversation, self.shown)),
            title if isinstance(title, str) else None,
            started=value_of(conversation, self.started),
            owner=name_of(value_of(conversation, self.owner)),
        )

    def read(self, listed: object, shown: object = None) -> list[Message]:
        """The messages of a list, or of an object by their ids. Raises InvalidInput."""
        items = list(listed.values()) if isinstance(listed, Mapping) else list_of(listed or [], "The messages")
        made = Conversation()
        raws = [mapping_of(item, "A message") for item in items]
        for number, raw in enumerate(self._branch(raws, name_of(shown)), 1):
            content, where = _some(raw, self.text), f"Message {number}"
            role = str(value_of(raw, self.role)).strip().lower()
            role = self.roles.get(role, role) if self.roles else role
            named = self.speaker[1:] if self.speaker.startswith("=") else value_of(raw, self.speaker)
            own = name_of(value_of(raw, self.mine)) if role in ("user", "human") else None
            message = {"role": role, "content": self.parts(raw, content)} | ({"name": own} if own else {})
            there = content is not None or any(name.partition(".")[0] in raw for name in self.text.split())
            files = [one for name in self.files.split() for one in marks(value_of(raw, name))]
            made.add(message if there else {"role": role, "fields": raw}, where, named, value_of(raw, self.time),
                     value_of(raw, self.message_id), files, mine=bool(self.mine))  # fmt: skip
        return made.messages

    def _branch(self, raws: Sequence[Raw], leaf: str | None) -> Sequence[Raw]:
        """The messages of the branch that is shown."""
        parents = [name_of(value_of(raw, self.parent)) for raw in raws]
        by_id = {name_of(value_of(raw, self.message_id)): at for at, raw in enumerate(raws)}
        if not self.parent:
            return raws
        if leaf not in by_id:
            known = [parent for parent in parents if parent is not None]
            if len({*known}) == len(known) or not {*known} & {*by_id}:
                return raws  # nothing was changed
            leaf = name_of(value_of(raws[-1], self.message_id))
        path = _path({name: parents[at] for name, at in by_id.items()}, leaf)
        return [raws[by_id[name]] for name in reversed(path)]


def _path(parents: Mapping[str | None, str | None], leaf: str | None) -> list[str | None]:
    """The names from this one to the root."""
    path: dict[str | None, None] = {}
    while leaf in parents and leaf not in path:
        path[leaf] = None
        leaf = parents[leaf]
    return list(path)


def _with_files(raw: Raw, content: object) -> object:
    """Claude's text as parts, with the text of what was attached."""
    files = [
        {"type": "file", "name": value_of(each, "file_name"), "text": value_of(each, "extracted_content")}
        for each in list_of(raw.get("attachments") or [], "attachments")
    ]
    parts, text = content if isinstance(content, list) else [content or ""], value_of(raw, "text")
    worded = content in (None, text) or any(value_of(part, "type") == "text" for part in parts)
    first = [] if worded or not isinstance(text, str) or "This block is not supported" in text else [text]
    return [*first, *parts, *files] if first or files else content


_CLAUDE = _Chats("chat_messages", "uuid", "name", "content text", "sender", "created_at", message_id="uuid",
                 parent="parent_message_uuid", shown="current_leaf_message_uuid", speaker="=Claude",
                 files="files files_v2", parts=_with_files)  # fmt: skip
_DETAILS = re.compile(r"<details\b([^<>]*)>.*?</details>\n?", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_DATA_URL = re.compile(r"!\[[^\[\]]{0,300}\]\(data:(\w+)/[\w+/;,=.%-]*\)")


def _without_details(raw: Raw, content: object) -> object:
    """Open WebUI's text as parts: calls of tools are read, reasoning is left out."""
    if not isinstance(content, str):
        return content
    content = _DATA_URL.sub(r"[\1]", content)
    if "</details>" not in content:
        return content
    parts: list[object] = []
    end = 0
    for found in _DETAILS.finditer(content):
        parts.append(content[end : found.start()].strip())
        end = found.end()
        own = {name: html.unescape(text) for name, text in _ATTRIBUTE.findall(found[1])}
        if own.get("type") == "tool_calls":
            call = {"toolName": own.get("name"), "args": own.get("arguments"), "result": decoded(own.get("result"), 1)}
            parts.append({"type": "tool-invocation", "toolInvocation": call})
        elif own.get("type") not in ("reasoning", "code_interpreter"):
            parts.append(found[0])  # a person's own
    return [*parts, content[end:].strip()]


_OPEN_WEBUI = _Chats("chat.history.messages chat.messages", "id chat.id", "title chat.title", "content", "role",
                     "timestamp", parent="parentId", shown="chat.history.currentId", speaker="modelName model",
                     parts=_without_details)  # fmt: skip
_LIBRECHAT = _Chats("messages messagesTree", "conversationId", "title", "content text", "isCreatedByUser", "createdAt",
                    message_id="messageId", parent="parentMessageId", speaker="sender",
                    roles={"true": "user", "false": "assistant"})  # fmt: skip


def _librechat(value: Value, options: Options) -> Iterator[Talk]:
    conversation = mapping_of(value.content, "A conversation")
    flat: list[object] = []
    coming = list_of(value_of(conversation, _LIBRECHAT.messages) or [], "The messages")[::-1]
    while coming:  # an export with branches is a tree
        message = coming.pop()
        flat.append(message)
        children = message.get("children") if isinstance(message, dict) else None
        coming += children[::-1] if isinstance(children, list) else []
    return _LIBRECHAT.talk(Value(value.position, {**conversation, "messages": flat}), options)


@dataclass(slots=True)
class _Log:
    """A file whose lines make one session."""

    made: Conversation = field(default_factory=Conversation)
    session: str | None = None
    title: object = None
    started: object = None
    steps: dict[str | None, str | None] = field(default_factory=dict)
    """The line before each line that has an id."""
    groups: dict[str | None, str | None] = field(default_factory=dict)
    """The message that a line is a part of."""
    linked: bool = False


def _by_line(
    read: Callable[[_Log, Raw, str], None], shown: Callable[[_Log], list[Message]] = lambda log: log.made.messages
) -> Reader:
    """A reader of files with a session each, which ``read`` reads line by line; a line that it refuses is left out.
    ``shown`` says which messages are the talk; others are counted."""

    def reader(files: Sequence[File], options: Options) -> Iterator[Found]:
        for file in files:
            log = _Log()

            def line(value: Value, log: _Log = log) -> Iterable[Found]:
                read(log, mapping_of(value.content, "A line"), f"Line {value.position}")
                return ()

            yield from read_each(file.values(), line)
            name = log.session or (None if file.name == "-" else file.stem)
            title = log.title if isinstance(log.title, str) else None
            messages = shown(log)
            left = len(log.made.messages) - len(messages)
            yield Talk(1, name, messages, title, started=log.started, notices=left)

    return reader


_SILLYTAVERN = _Chats("", "", "", "mes", "role", "send_date", message_id="", speaker="name", mine="name",
                      files="extra.image extra.file extra.files extra.media")  # fmt: skip
_HUMAN = {"true": "user", "false": "assistant", "none": "assistant"}
_CAI = _Chats("turns", "turns.0.turn_key.chat_id", "", "said", "author.is_human", "create_time", roles=_HUMAN,
              message_id="turn_key.turn_id", speaker="author.name", mine="author.name")  # fmt: skip
_CAI_OLDER = _Chats("msgs messages", "external_id id", "", "text", "src.is_human", "created", roles=_HUMAN,
                    started="created", message_id="uuid id", speaker="src.name", mine="src.name")  # fmt: skip


def _sillytavern(log: _Log, raw: Raw, where: str) -> None:
    if not {"chat_metadata", "user_name"} & raw.keys():
        role = "user" if raw.get("is_user") else "system" if raw.get("is_system") else "assistant"
        date = raw.get("send_date")
        if isinstance(date, str) and "@" in date:  # 2024-1-3 @2h 5m 9s 12ms
            date = re.sub(r"\s+(?=[@\d])|\s*\d+ms$", "", date)
        log.made.messages += (said := _SILLYTAVERN.read([{**raw, "role": role, "send_date": date}]))
        log.title = log.title or next((message.speaker for message in said if role == "assistant"), None)


def _characterai(value: Value, options: Options) -> Iterator[Talk]:
    chat = mapping_of(value.content, "A chat")
    turns = [mapping_of(turn, "A turn") for turn in list_of(chat.get("turns"), "turns")]
    raws = [{**turn, **_said_in(turn)} for turn in turns]
    title = next((name_of(value_of(raw, "author.name")) for raw in raws if value_of(raw, _CAI.role) is not True), None)
    yield Talk(value.position, name_of(value_of(chat, _CAI.id)), _CAI.read(raws), title)


def _said_in(turn: Raw) -> Raw:
    """The candidate of a turn that was chosen, else the last one."""
    candidates, chosen = _listed(turn, "candidates"), value_of(turn, "primary_candidate_id")
    best = next((one for one in candidates if value_of(one, "candidate_id") == chosen), (candidates or [None])[-1])
    said = value_of(best, "raw_content")
    return {"said": said or ""} if said or not candidates else {}


_PROMPTED = re.compile(r"(?:Prompted|Asked|Said|Eingegebener Prompt:|Prompt:?)\s+", re.IGNORECASE)


def _takeout(files: Sequence[File], options: Options) -> Iterator[Found]:
    """A session for each day (UTC), oldest first; other products of Google have activities of the same form."""
    days: dict[str, Talk] = {}
    items = [value for file in files for value in file.values()]
    yield from (value for value in items if isinstance(value, Refused))
    for value in sorted((each for each in items if isinstance(each, Value)), key=_taken_at):
        raw, time = value.content, _taken_at(value)
        pages = [value_of(one, "html") for one in _listed(raw, "safeHtmlItem")]
        answer = "\n".join(plain_html(page) for page in pages if isinstance(page, str))
        title = str(value_of(raw, "title") or "")
        prompt = _PROMPTED.match(title)
        names = f"{value_of(raw, 'header')} {value_of(raw, 'products')}"
        if not (answer or prompt) or not re.search("gemini|bard", names, re.IGNORECASE):
            continue  # something that was switched or used
        own = [str(value_of(one, "name")).strip("- \xa0") for one in _listed(raw, "subtitles") if value_of(one, "url")]
        given = _listed(raw, "attachedFiles")
        day = days.setdefault(time[:10], Talk(value.position, f"gemini-{time[:10]}", [], "Gemini Apps"))
        sent = Message(title[prompt.end() if prompt else 0 :], "user", time=time, raw=raw)
        sent.files = [mark(None, name) for name in (own if len(own) == len(given) else given)]
        day.messages += [sent, *([Message(answer, "assistant", "Gemini", time=time, raw=raw)] if answer else [])]
    yield from days.values()


def _taken_at(value: Value) -> str:
    return str(value_of(value.content, "time") or "")


def _listed(raw: object, name: str) -> list[object]:
    found = value_of(raw, name)
    return found if isinstance(found, list) else []


def _takeout_page(files: Sequence[File], options: Options) -> Iterator[Found]:
    raise InvalidInput(
        "Gemini's activity is read as JSON, not as a page: in Takeout choose My Activity, then JSON as its format.",
        code="unreadable_file",
    )


_TITLES = ("summary", "custom-title", "ai-title")


def _claude_code(log: _Log, line: Raw, where: str) -> None:
    kind, own = line.get("type"), name_of(line.get("uuid"))
    if kind in _TITLES:
        log.title = value_of(line, "summary customTitle aiTitle")
    if own and not line.get("isSidechain"):
        before = name_of(value_of(line, "parentUuid logicalParentUuid"))
        log.linked = log.linked or before in log.steps
        if before not in log.steps and (before or kind != "user"):  # in another file, or none that anybody said
            before = next(reversed(log.steps), None)
        log.steps[own], log.groups[own] = before, name_of(value_of(line, "message.id")) or own
    if kind not in ("user", "assistant") or any(line.get(name) for name in HIDDEN_LINES):
        return
    log.session = log.session or name_of(line.get("sessionId"))
    raw = own_words(mapping_of(line.get("message"), "A message"))
    if raw is not None:
        said = {name: raw[name] for name in ("role", "content") if name in raw}
        log.made.add(said, where, "Claude", line.get("timestamp"), own)


def _not_rewound(log: _Log) -> list[Message]:
    """The messages before the newest line; the results of parallel calls are on branches of their own."""
    if not log.linked:
        return log.made.messages
    path = {log.groups[own] for own in _path(log.steps, next(reversed(log.steps)))}
    shown: list[Message] = []
    for message in log.made.messages:
        own = (message.id or "").partition("#")[0]
        before = log.steps.get(own) if message.role == "tool" else None
        if own not in log.steps or {log.groups[own], log.groups.get(before)} & path:
            shown.append(message)
    return shown


def _codex(log: _Log, line: Raw, where: str) -> None:
    item = line.get("payload") if line.get("type") == "response_item" else line
    if line.get("type") == "session_meta" or (log.session is None and "instructions" in line):
        log.session = name_of(value_of(line, "payload.id id"))
        log.started = value_of(line, "payload.timestamp timestamp")
    if not isinstance(item, Mapping) or not (item.get("type") == "message" or item_role(item.get("type"))):
        return
    raw, result = own_words(item), decoded(item.get("output"))
    if raw is not None and raw.get("role") not in ("developer", "system"):
        if isinstance(result, Mapping) and result.keys() <= {"output", "content", "metadata", "success"}:
            raw = {**raw, "output": value_of(result, "output content") or ""}
        log.made.add(raw, where, "Codex", line.get("timestamp"))


def _letta(value: Value, options: Options) -> Iterator[Talk]:
    """A session for each agent."""
    file = mapping_of(value.content, "An agent file")
    agents = file.get("agents")
    for number, each in enumerate(agents if isinstance(agents, list) else [file], 1):
        agent = mapping_of(each, "An agent")
        name = name_of(agent.get("name"))
        raws = [mapping_of(raw, "A message") for raw in list_of(agent.get("messages") or [], "messages")]
        sends = any(value_of(call, _CALLED) == _SEND for raw in raws for call in _listed(raw, "tool_calls"))
        made = Conversation()
        for at, raw in enumerate(raws, 1):
            if (message := _letta_message(raw, sends)) is not None:
                made.add(message, f"Message {at}", name, raw.get("created_at"), raw.get("id") or raw.get("otid"))
        yield Talk(value.position, name_of(agent.get("id")) or name or f"letta-{number}", made.messages, name)


_SEND = "send_message"
"""Letta's tool with which an agent speaks; text next to calls is what such an agent thinks to itself."""


_CALLED, _ARGUMENTS = "function.name name", "function.arguments arguments"


def _letta_message(raw: Raw, sends: bool) -> Raw | None:
    """A message of an agent file in the form of a chat API; None for what nobody says."""
    role, calls, own = raw.get("role"), _listed(raw, "tool_calls"), raw.get("name")
    content = _some(raw, "content text tool_returns.0.func_response tool_returns.0.tool_return")
    packed = _packed(value_of(content, "0.text") if isinstance(content, list) and len(content) == 1 else content)
    if role in ("system", "summary") or (role == "approval" and not calls) or (role == "tool" and own == _SEND):
        return None
    if role == "user" and packed is not None:
        return {"role": role, "content": packed.get("message")} if packed.get("type") == "user_message" else None
    if role == "tool" and packed is not None and "message" in packed:
        content = words_of(packed["message"], "The result")
    if calls and sends:
        spoken = (value_of(one, _ARGUMENTS) for one in calls if value_of(one, _CALLED) == _SEND)
        content = "\n".join(str(value_of(_packed(one), "message") or "") for one in spoken)
    message = {
        "role": "assistant" if role == "approval" else role,
        "content": content,
        "name": own,
        "tool_call_id": _some(raw, "tool_call_id tool_returns.0.tool_call_id"),
        "tool_calls": [call for call in calls if value_of(call, _CALLED) != _SEND],
    }
    return {name: found for name, found in message.items() if found is not None}


def _packed(text: object) -> Raw | None:
    """The object that a text is as JSON."""
    found = decoded(text, 1)
    return found if isinstance(found, Mapping) else None


def _pages(read: Callable[[Value, Options], Iterable[Talk]], under: str = "") -> Reader:
    """A reader of pages: what they have of one session is one, oldest first."""

    def reader(files: Sequence[File], options: Options) -> Iterator[Found]:
        talks: dict[str | None, Talk] = {}
        for found in each_value(read, under)(files, options):
            if not isinstance(found, Talk):
                yield found
            elif talks.setdefault(found.session, found) is not found:
                talks[found.session].messages += found.messages
        for talk in talks.values():
            talk.messages.sort(key=lambda message: str(message.time or ""))
            yield talk

    return reader


def _facts(product: str, under: str, text: str, session: str, time: str, metadata: str) -> Reader:
    """A reader of another memory's facts: statements with the time from which they are true."""

    def read(value: Value, options: Options) -> Iterator[Talk]:
        raw = mapping_of(value.content, "A fact")
        if value_of(raw, "state") not in ("invalidated", "deleted"):
            said, ended = value_of(raw, text), value_of(raw, "invalid_at")
            words = f"{said} (valid until {str(ended)[:10]})" if ended else str(said)
            made = Message(words if isinstance(said, str) else None, "user", time=value_of(raw, time), raw=raw)
            made.id = name_of(value_of(raw, "uuid id"))
            made.metadata = {name: found for name in metadata.split() if (found := value_of(raw, name))}
            name = name_of(value_of(raw, session)) or name_of(value_of(value.outer, f"{session} id"))
            yield Talk(value.position, name or product, [made])

    return _pages(read, under)


_ZEP = _Chats("messages episodes items", "thread_id session_id thread_uuid session.session_id", "", "content",
              "role_type role source", "reference_time created_at", started="thread_created_at created_at",
              message_id="uuid id", mine="name", owner="user_id",
              roles=dict.fromkeys(("norole", "text", "json", "message"), "user"))  # fmt: skip


def _zep(value: Value, options: Options) -> Iterator[Talk]:
    """A session for each thread that a page has messages or episodes of."""
    page = mapping_of(value.content, "A page")
    threads: dict[str | None, list[object]] = {}
    for raw in [page] if "content" in page else list_of(_some(page, _ZEP.messages) or [], "The messages"):
        threads.setdefault(name_of(value_of(raw, "thread_id session_id thread_uuid")), []).append(raw)
    for name, said in threads.items():
        more = {"thread_id": name, "messages": said} if name or said == [page] else {"messages": said}
        yield from _ZEP.talk(Value(value.position, {**page, **more}), options)


PRODUCTS: tuple[Format, ...] = (
    Format("claude", "Claude's data export", each_value(_CLAUDE.talk, "conversations"),
           ("uuid chat_messages name", "conversations.chat_messages conversations.uuid"),
           has=r"(^|/)conversations\.json$ (^|/)(users|projects|memories)\.json$", files=r"(^|/)conversations\.json$"),
    Format("gemini-takeout", "Gemini's activity of Google Takeout", _takeout,
           ("header=Gemini Apps title time", "header=Bard title time", "title time safeHtmlItem.html"),
           has=r"(Gemini|Bard)[^/]*/[^/]*\.json$", files=r"(Gemini|Bard)[^/]*/[^/]*\.json$"),
    Format("gemini-takeout-page", "Gemini's activity of Google Takeout as a page, which is not read", _takeout_page,
           begins=lambda text: "outer-cell mdl-cell" in text or "<title>My Activity" in text),
    Format("open-webui", "Open WebUI's chats", each_value(_OPEN_WEBUI.talk, "data chats"),
           ("chat.history.messages", "chat.history.messages chat.models", "chat.messages chat.models")),
    Format("librechat", "LibreChat's conversation", each_value(_librechat),
           ("conversationId exportAt", "conversationId endpoint title", "messages.isCreatedByUser messages.text")),
    Format("sillytavern", "SillyTavern's chat", _by_line(_sillytavern),
           ("is_user mes name", "is_user mes send_date name", "chat_metadata mes")),
    Format("characterai", "Character.AI's chat", _pages(_characterai),
           ("turns.candidates.raw_content turns.turn_key", "turns.candidates turns.author")),
    Format("characterai-older", "Character.AI's older histories",
           each_value(_CAI_OLDER.talk, "histories.histories histories"),
           ("histories.histories.msgs", "histories.msgs")),
    Format("letta", "Letta's agent file", each_value(_letta),
           ("agents.messages agents.agent_type", "agents.system agents.name", "agent_type core_memory",
            "agent_type in_context_message_indices")),
    Format("zep-facts", "edges of Zep's graph",
           _facts("zep", "edges facts items", "fact", "group_id graph_id graph_uuid", "valid_at created_at",
                  "name invalid_at"),
           ("fact valid_at invalid_at", "edges.fact edges.source_node_uuid", "fact source_node_uuid",
            "facts.fact facts.created_at", "items.fact items.uuid items.source_node_uuid")),
    Format("zep", "a thread of Zep", _pages(_zep, "threads sessions"),
           ("messages.processed messages.uuid", "messages.role_type messages.content", "messages.uuid row_count",
            "episodes.content episodes.uuid", "items.content items.uuid items.thread_uuid",
            "items.content items.uuid items.processed", "role_type content uuid")),
    Format("hindsight", "hindsight's memories",
           _facts("hindsight", "items memories results facts memory_units", "text", "document_id",
                  "occurred_start mentioned_at event_date date created_at", "fact_type context entities"),
           ("items.text items.fact_type", "text fact_type", "memories.fact_type", "results.text results.mentioned_at",
            "memory_units.text memory_units.fact_type", "items.mentioned_at items.document_id",
            "facts.text facts.fact_type original_text"),
           has=r"(^|/)documents/\d+\.json$ (^|/)manifest\.json$", files=r"(^|/)(documents/\d+|observations)\.json$"),
    Format("claude-code", "a session of Claude Code", _by_line(_claude_code, _not_rewound),
           ("sessionId message.role uuid parentUuid", "sessionId isSidechain message")),
    Format("codex", "a session of Codex", _by_line(_codex),
           ("type=session_meta payload.id", "type=response_item payload", "record_type instructions id timestamp")),
    *API_MESSAGES,
)  # fmt: skip
