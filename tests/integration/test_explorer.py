"""The pages over real stores: who may see and do what, that nothing said is taken for markup, and that all is there."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.models.calls import Embedder
from memforest_core.service.explorer.explorer_app import PAGES, STATIC
from memforest_core.service.explorer.login import HEADERS
from memforest_core.service.explorer.page_requests import href
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import HELD_S, Keys
from memforest_core.work.records import DeadKind
from tests.harness.model_server import ModelServer
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import MEMBERS, Grown, Stack, cloned

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
"""An owner, a session, a name and words that would be markup if they were not escaped."""
OWN = {"Sec-Fetch-Site": "same-origin"}
DIRECTIVES = {
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "font-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
}


def tell(running: Stack) -> None:
    client = running.memory.client
    client.enqueue("bob", "moving", said("I live in Davis.", "I moved to Boston.", start=1_710_000_000))
    client.enqueue("bob", "shopping", said(*[f"I bought item{n} for {n} dollars in Denver." for n in range(12)]))
    client.enqueue("carol", "tea", said("I love tea.", name="Carol"))
    client.enqueue(EVIL, EVIL, said(f"I live in {EVIL}.", f"I moved to Boston {EVIL}", name=EVIL))
    running.drive()
    lifecycle = running.memory.lifecycle
    lifecycle.forget("carol", session="tea", actor="test", dry_run=True)
    lifecycle.set_policy(max_age_days=36_000, actor="test")
    lifecycle.set_policy(EVIL, max_facts=1_000, max_bytes=1_000_000, order="visits", actor="test")


@dataclass(frozen=True)
class Site:
    """The service over a stack."""

    stack: Stack
    address: str
    clients: ExitStack

    def secret(self, **options: str) -> str:
        """A new key."""
        return Keys(self.stack.services.engine).create(self.stack.tenant, "looker", **options).secret

    def visitor(self, key: str | None) -> httpx.Client:
        """A browser that has this key, and follows no redirect by itself."""
        client = self.clients.enter_context(httpx.Client(base_url=self.address, timeout=60.0))
        if key is not None:
            assert client.post("/login", data={"key": key}, headers=OWN).status_code == 303
        return client

    @property
    def admin(self) -> httpx.Client:
        return self.visitor(self.secret(scope="admin"))


@contextmanager
def serving(stack: Stack, proxy: str = "") -> Iterator[Site]:
    server = HttpServer(stack.memory, listen("127.0.0.1", 0), proxy=proxy)
    server.start()
    try:
        with ExitStack() as clients:
            yield Site(stack, server.address, clients)
    finally:
        server.stop()


@pytest.fixture
def site(rested: Stack) -> Iterator[Site]:
    """A service whose memory a test may change."""
    with serving(rested) as running:
        yield running


@pytest.fixture(scope="module")
def calm(grown_once: Stack) -> Iterator[Site]:
    """A service whose memory nobody changes."""
    with serving(grown_once) as running:
        yield running


@pytest.fixture
def stack(site: Site) -> Stack:
    return site.stack


@pytest.fixture
def admin(site: Site) -> httpx.Client:
    return site.admin


def links(page: str) -> set[str]:
    found = (html.unescape(address).split("#")[0] for address in re.findall(r'href="([^"]+)"', page))
    return {address for address in found if address.startswith("/") and not address.startswith("/static/")}


def shape(address: str) -> tuple[str, str, tuple[str, ...]]:
    """The page that an address is of, whose it is, and what it names; each tree is a page of its own."""
    parts = urlsplit(address)
    query = parse_qs(parts.query)
    named = query["tree"] if set(query) == {"owner", "tree"} else sorted(query)
    return parts.path, query.get("owner", [""])[0], tuple(named)


def fact_of(stack: Stack, owner: str, words: str) -> str:
    return next(str(fact.id) for fact in stack.memory.facts(owner).items if words in fact.text)


@pytest.mark.parametrize("path", sorted(PAGES))
def test_without_a_key_every_page_leads_to_the_login(calm: Site, path: str) -> None:
    client = calm.visitor(None)
    answer = client.get(path, params={"owner": "bob"})

    assert (answer.status_code, urlsplit(answer.headers["location"]).path) == (303, "/login")


def test_a_login_is_remembered_where_no_script_and_no_other_site_gets_it(calm: Site) -> None:
    key = calm.secret(scope="read")
    client = calm.visitor(None)
    refused = client.post("/login", data={"key": "mf_wrong", "next": "/"}, headers=OWN)
    answer = client.post("/login", data={"key": key, "next": "/owner?owner=bob"}, headers=OWN)
    shown = client.get(answer.headers["location"])

    assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
    assert answer.headers["location"] == "/owner?owner=bob"
    stored = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(stored.split("; "))
    assert shown.status_code == 200
    assert key not in shown.text


def cookie(answer: httpx.Response) -> tuple[str, set[str]]:
    first, *rest = answer.headers["set-cookie"].split("; ")
    return first, set(rest)


def test_the_cookie_of_a_login_is_not_the_key(calm: Site) -> None:
    """Given a login, then the cookie neither is the key nor works as one, nor at another host, nor after the end."""
    key = calm.secret()
    client = calm.visitor(None)
    sent, _ = cookie(client.post("/login", data={"key": key}, headers=OWN))
    token = sent.partition("=")[2]

    def seen(**headers: str) -> bool:
        answer = httpx.get(f"{calm.address}/owners", headers={"Cookie": sent, **headers})
        return answer.status_code == 200

    assert key not in sent
    assert httpx.get(f"{calm.address}/v1/quota", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert seen()
    assert not seen(Host="evil.example")
    assert not seen(Cookie=f"{sent.partition('=')[0]}={key}")
    client.post("/logout", headers=OWN)
    assert not seen()


def test_over_tls_the_cookie_goes_over_tls_only(calm: Site) -> None:
    """Given a proxy that speaks TLS, then the cookie is a __Host- cookie; a header of anybody else changes nothing."""
    over_tls = {**OWN, "X-Forwarded-Proto": "https"}
    with serving(calm.stack, proxy="127.0.0.1") as behind:
        sent, has = cookie(behind.visitor(None).post("/login", data={"key": calm.secret()}, headers=over_tls))
        assert sent.startswith("__Host-")
        assert {"Secure", "Path=/", "HttpOnly"} <= has
        assert not any(part.startswith("Domain") for part in has)
        shown = httpx.get(f"{behind.address}/owners", headers={"Cookie": sent, "X-Forwarded-Proto": "https"})
        assert shown.status_code == 200
    _, has = cookie(calm.visitor(None).post("/login", data={"key": calm.secret()}, headers=over_tls))
    assert "Secure" not in has


def test_every_page_that_is_linked_can_be_seen_and_follows_the_policy(calm: Site) -> None:
    """Given what hostile owners, sessions and words are stored, when every kind of link is followed, then each page is
    there, has the policy, and contains no markup of theirs, no inline script and no inline style."""
    admin = calm.admin
    seen: dict[tuple[str, str, tuple[str, ...]], str] = {}
    todo = ["/", "/owners", href("/ask", owner=EVIL, question="Where do I live?"), href("/audit", owner=EVIL)]
    todo += [href("/context", owner=EVIL, question="Where do I live?"), href("/ask", owner="bob", question="Davis?")]
    while todo:
        address = todo.pop()
        if shape(address) in seen:
            continue
        answer = admin.get(address)
        if answer.status_code == 303:
            answer = admin.get(answer.headers["location"])
        assert answer.status_code == 200, (address, answer.text)
        seen[shape(address)] = answer.text
        assert set(answer.headers["content-security-policy"].split("; ")) == DIRECTIVES
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>" not in answer.text
        assert "<img src=x" not in answer.text
        assert re.search(r"""\sstyle=|\son\w+=["']|javascript:""", answer.text.replace(html.escape(EVIL), "")) is None
        todo += links(answer.text)

    assert {path for path, _, _ in seen} == set(PAGES)
    assert {owner for path, owner, _ in seen if path == "/session"} == {"bob", "carol", EVIL}


def test_counting_takes_nothing(stack: Stack, admin: httpx.Client) -> None:
    form = {"owner": "bob", "session": "moving", "dry_run": "1"}
    requested = admin.post("/forget", data=form, headers=OWN)
    stack.drive()

    assert "nothing was removed: a dry run" in admin.get(requested.headers["location"]).text
    assert len(stack.memory.sessions("bob").items) == 2


def test_everything_goes_only_when_the_owner_is_typed(stack: Stack, admin: httpx.Client) -> None:
    refused = admin.post("/forget", data={"owner": "bob", "everything": "bo"}, headers=OWN)
    admin.post("/forget", data={"owner": "bob", "everything": "bob"}, headers=OWN)
    stack.drive()

    assert refused.status_code == 400
    assert admin.get("/owner?owner=bob").status_code == 404
    assert stack.memory.sessions("carol").items


def test_a_corrected_fact_says_what_it_is_now(stack: Stack, admin: httpx.Client) -> None:
    fact = fact_of(stack, "bob", "Davis")
    form = {"owner": "bob", "fact": fact, "text": "Bob lived in Reno."}
    admin.post("/correct", data=form, headers=OWN)
    stack.drive()

    page = admin.get(href("/fact", owner="bob", fact=fact)).text
    assert "corrected" in page
    assert "Bob lived in Reno." in page


def test_the_day_of_a_fact_is_that_of_its_owners_time_zone_and_as_coarse_as_it_was_said(
    stack: Stack, admin: httpx.Client
) -> None:
    stack.execute("UPDATE memforest.forest SET time_zone = 'Pacific/Auckland' WHERE owner = 'bob'")
    turns = said("I moved to Oslo on May 5, 2023.", "I moved to Lisbon in March 2024.", start=1_740_000_000)
    stack.memory.client.enqueue("bob", "dates", turns)
    stack.drive()

    for words, day in (("Oslo", "5 May 2023"), ("Lisbon", "March 2024")):
        fact = href("/fact", owner="bob", fact=fact_of(stack, "bob", words))
        assert f"<dt>When (Pacific/Auckland)</dt><dd>{day}</dd>" in admin.get(fact).text
        assert f'class="span">{day}</td>' in admin.get("/facts?owner=bob").text


def test_a_pin_is_set_and_taken_back(stack: Stack, admin: httpx.Client) -> None:
    fact = fact_of(stack, "bob", "Davis")
    for form, pinned in (({}, True), ({"pinned": "1"}, False)):
        admin.post("/pin", data={"owner": "bob", "fact": fact, **form}, headers=OWN)
        stack.drive()
        assert [str(each.id) == fact for each in stack.memory.facts("bob", pinned=True).items] == [True] * pinned


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "none"}]
)
def test_a_form_of_another_site_does_nothing(calm: Site, headers: dict[str, str]) -> None:
    stack = calm.stack
    admin = calm.admin
    answer = admin.post("/forget", data={"owner": "bob", "session": "moving"}, headers=headers)

    assert answer.status_code == 403
    assert {task.actor for task in stack.memory.lifecycle.operations()} == {"test"}


def test_a_form_that_is_too_long_is_refused(calm: Site) -> None:
    admin = calm.admin
    answer = admin.post("/correct", data={"text": "x" * 70_000}, headers=OWN)

    assert answer.status_code == 413


def test_a_key_that_reads_is_shown_nothing_that_it_may_not_do(calm: Site) -> None:
    stack = calm.stack
    fact = fact_of(stack, "bob", "Davis")
    client = calm.visitor(calm.secret(scope="read"))
    first = client.get("/")
    pages = [client.get(href(path, owner="bob", fact=fact, session="moving")) for path in ("/fact", "/session")]
    refused = [client.get(path) for path in ("/dead", "/audit", "/policies")]
    refused += [client.get(href("/forget", owner="bob", fact=fact))]
    for path in ("/forget", "/correct", "/pin"):
        refused.append(client.post(path, data={"owner": "bob", "fact": fact, "text": "x"}, headers=OWN))
    for path in ("/dead/retry", "/dead/discard", "/operation/cancel"):
        refused.append(client.post(path, data={"id": fact, "all": "1"}, headers=OWN))

    assert first.headers["location"] == "/owners"
    assert all("/forget" not in page.text and "<textarea" not in page.text for page in pages)
    assert {answer.status_code for answer in refused} == {403}
    assert {task.actor for task in stack.memory.lifecycle.operations()} == {"test"}


def test_a_key_of_some_owners_reaches_no_other(site: Site, stack: Stack) -> None:
    """Given a key that is bound to owners, then it sees only those, and forgets only of those."""
    fact, other = fact_of(stack, "carol", "tea"), fact_of(stack, "bob", "Davis")
    foreign, own_tree = (stack.services.inspection.trees(stack.tenant, owner)[0] for owner in ("bob", "carol"))
    client = site.visitor(site.secret(scope="admin", owners="car*"))
    questions = {"question": "Where does Bob live?", "q": "Davis", "node": str(foreign.id), "entity": "Bob"}
    seen = [
        client.get(href(path, owner="carol", **questions))
        for path in ("/search", "/graph", "/facts", "/ask", "/states")
    ]
    listed = client.get("/owners").text
    requested = client.post("/forget", data={"owner": "carol", "fact": fact}, headers=OWN)
    own = client.get(requested.headers["location"])
    elsewhere = stack.memory.lifecycle.forget("bob", session="moving", actor="test", dry_run=True)
    refused = [
        *(
            client.get(href(path, owner="bob", session="moving", fact=other))
            for path in PAGES
            if path not in ("/", "/owners", "/search")
        ),
        client.get("/operations"),
        client.get("/costs"),
        client.get(href("/operation", id=elsewhere.id, owner="carol")),
        client.get(href("/operation", id=elsewhere.id)),
        client.get(href("/tree", owner="carol", tree=foreign.id)),
        client.get(href("/fact", owner="carol", fact=other)),
        client.get(href("/tree", owner="carol", tree=own_tree.id, node=foreign.root_id)),
        client.get(href("/tree", owner="carol", tree=own_tree.id, zoom=foreign.root_id)),
        client.get(href("/node", owner="carol", node=foreign.root_id)),
        client.post("/forget", data={"owner": "bob", "fact": other}, headers=OWN),
    ]

    assert {owner for owner in ("bob", "carol") if href("/owner", owner=owner) in links(listed)} == {"carol"}
    assert own.status_code == 200
    assert all("in Davis" not in page.text and "Boston" not in page.text for page in seen)
    assert {answer.status_code for answer in refused} <= {403, 404, 400}


def test_a_node_is_shown_under_its_own_owner_only(calm: Site, admin: httpx.Client) -> None:
    node = calm.stack.memory.trees("bob").items[0].root_id
    answers = [admin.get(href("/node", owner=owner, node=node)) for owner in ("bob", "carol")]

    assert [answer.status_code for answer in answers] == [303, 404]


def test_a_key_of_another_tenant_sees_nothing_of_this_one(calm: Site) -> None:
    stack = calm.stack
    key = Keys(stack.services.engine).create(TenantId("other"), "looker", scope="admin").secret
    client = calm.visitor(key)
    pages = [client.get("/"), client.get("/owners"), client.get("/owner?owner=bob")]

    assert [page.status_code for page in pages] == [200, 200, 404]
    assert all(href("/owner", owner="carol") not in links(page.text) for page in pages)


def test_a_revoked_key_ends_the_visit(calm: Site) -> None:
    stack = calm.stack
    keys = Keys(stack.services.engine)
    made = keys.create(stack.tenant, "looker", scope="read")
    client = calm.visitor(made.secret)
    before = client.get("/owners").status_code
    keys.revoke(stack.tenant, made.key.id)
    time.sleep(HELD_S)
    after = client.get("/owners")

    assert (before, urlsplit(after.headers["location"]).path) == (200, "/login")


def test_a_page_that_follows_something_is_sent_to_the_login_whole(calm: Site) -> None:
    client = calm.visitor(None)
    answer = client.get("/", headers={"HX-Request": "true"})

    assert (answer.status_code, answer.headers["hx-redirect"]) == (200, "/login")


def test_pages_count_towards_the_rate_of_their_key(calm: Site) -> None:
    stack = calm.stack
    made = Keys(stack.services.engine).create(stack.tenant, "looker", scope="read", requests_per_minute=2)
    client = calm.visitor(made.secret)
    answers = [client.get("/owners") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert "retry-after" in answers[-1].headers


def test_dead_work_is_tried_again_and_discarded(stack: Stack, admin: httpx.Client) -> None:
    """Given two dead cells, when one is retried and one discarded, then none is left."""
    for owner in ("dan", "eve"):
        stack.memory.client.enqueue(owner, "one", said("I live in Rome."))
        with ExtractRows.opened(stack.services.engine, stack.tenant) as rows:
            window = rows.claim_window(stack.runtime.worker, 60.0)
            assert window is not None
            rows.bury_window(window, "crashed", "It crashed.")
    letters = stack.memory.dead.list(kinds=[DeadKind.CELL])
    owners = {letter.owner: str(letter.id) for letter in letters}
    assert "It crashed." in admin.get("/dead").text
    assert "crashed" in admin.get("/").text
    assert "It crashed." in admin.get(href("/dead", id=owners["dan"])).text

    admin.post("/dead/retry", data={"id": owners["dan"]}, headers=OWN)
    admin.post("/dead/discard", data={"id": owners["eve"]}, headers=OWN)
    admin.post("/dead/retry", data={"all": "1"}, headers=OWN)
    stack.drive()

    assert stack.memory.dead.list() == []
    assert stack.memory.facts("dan").items


def test_a_tree_is_drawn_with_what_is_behind_and_followed(stack: Stack, admin: httpx.Client) -> None:
    """Given a tree that grew, then its dirty nodes are marked and the page polls until the refresh is done."""
    tree = max(stack.services.inspection.trees(stack.tenant, "bob"), key=lambda each: each.leaves)
    address = href("/tree", owner="bob", tree=tree.id)
    calm = admin.get(address).text
    stack.memory.client.enqueue("bob", "later", said("I bought item99 for 3 dollars in Denver.", start=1_730_000_000))
    while stack.runtime.extract() + stack.runtime.reduce():
        pass
    behind = admin.get(address).text
    stack.drive()

    assert "all summaries up to date" in calm
    assert 'hx-trigger="every 2s"' not in calm
    assert 'hx-trigger="every 2s"' in behind
    assert 'fill="url(#stripes)"' in behind
    assert "hx-trigger" not in admin.get(address).text


@pytest.mark.parametrize("axis", ["order", "time"])
def test_a_level_contains_each_leaf_of_the_tree_once(calm: Site, axis: str) -> None:
    stack = calm.stack
    admin = calm.admin
    tree = max(stack.services.inspection.trees(stack.tenant, "bob"), key=lambda each: each.leaves)
    page = admin.get(href("/tree", owner="bob", tree=tree.id, axis=axis)).text
    bars = re.findall(r'class="node l-0[^"]*" x="([\d.]+)%" y="1" width="([\d.]+)%"', page)

    assert len(bars) == tree.leaves
    assert all(float(x) + float(width) <= 100.01 for x, width in bars)
    if axis == "order":
        assert sum(float(width) for _, width in bars) == pytest.approx(100, abs=0.1)


def lanes(page: str) -> list[str]:
    return re.findall(r'<li class="lane">.*?</li>', page, re.DOTALL)


def test_a_lane_goes_on_exactly_when_it_says_current(calm: Site) -> None:
    """Given homes of everybody, then each value has a lane, what was replaced names what replaced it, and the quote is
    there without scripts."""
    page = calm.admin.get("/states?owner=bob").text
    found = {value: lane for lane in lanes(page) for value in ("Davis", "Boston") if f"<bdi>{value}</bdi></a>" in lane}

    assert sorted(found) == ["Boston", "Davis"]
    assert "→ <bdi>Boston</bdi>" in found["Davis"] and "I live in Davis." in found["Davis"]
    assert [("goes-on" in lane) == (">current<" in lane) for lane in lanes(page)] == [True] * len(lanes(page))
    assert "choose all" in calm.admin.get("/states?owner=bob&since=1999-01-01&until=1999-12-31").text


def test_facts_are_searched_by_words_and_small_talk_is_counted(stack: Stack, admin: httpx.Client) -> None:
    """Given small talk, then it is hidden with its number, shown on demand, and found by its words."""
    stack.memory.client.enqueue("bob", "chat", said("Half and half.", "I live in Oslo.", start=1_740_000_000))
    stack.drive()
    pages = {query: admin.get(f"/facts?owner=bob{query}").text for query in ("", "&small=yes", "&q=HALF+an", "&q=%25")}

    assert "1 small-talk fact hidden" in pages[""] and "Half and half" not in pages[""] and "Oslo" in pages[""]
    assert "Half and half" in pages["&small=yes"]
    assert "<mark>Half</mark>" in pages["&q=HALF+an"] and "Oslo" not in pages["&q=HALF+an"]
    assert "No fact has all of this" in pages["&q=%25"]


def test_the_graph_has_what_facts_share_and_says_what_it_leaves_out(
    calm: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = calm.admin.get("/graph?owner=bob").text
    nodes = dict(re.findall(r'data-id="([^"]+)".*?<title>(\w+): ', whole))
    denver = next(node for node, label in nodes.items() if label == "Denver")
    near = calm.admin.get(href("/graph", owner="bob", node=denver)).text
    shared = calm.stack.rows(
        f"SELECT count(DISTINCT a.payload_id) FROM {MEMBERS} a JOIN {MEMBERS} b USING (payload_id)"
        " WHERE a.tree_id = :tree AND b.tree_id <> a.tree_id AND EXISTS (SELECT FROM memforest.tree"
        " WHERE tree_id = b.tree_id AND kind = 'entity')",
        tree=denver,
    )
    monkeypatch.setattr("memforest_core.service.explorer.graph_page.NODES", 2)
    cut = calm.admin.get("/graph?owner=bob").text

    assert f"Denver: {shared[0][0]} facts shared" in whole and shared[0][0] >= 12
    assert "in Denver" in near and whole.count('class="link') >= 1
    assert cut.count("data-id=") == 2 and f"{len(nodes) - 2} of {len(nodes)} are left out" in cut


def test_the_path_of_a_question_is_lit(calm: Site) -> None:
    tree = max(calm.stack.services.inspection.trees(calm.stack.tenant, "bob"), key=lambda each: each.leaves)
    page = calm.admin.get(href("/tree", owner="bob", tree=tree.id, question="What did Bob buy in Denver?")).text
    lit = re.search(r"(\d+) of the best evidence items are below", page)

    assert lit is not None and int(lit[1]) > 0
    assert 'class="at lit' in page
    assert 'class="at lit' not in calm.admin.get(href("/tree", owner="bob", tree=tree.id)).text


def test_an_answer_is_first_where_a_model_writes_one(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    """Given a chat model, when its answer is wanted, then it comes first and names its evidence; else nothing calls it."""
    reply = json.dumps({"answer": "In Boston.", "citations": [1], "supported": True})
    with ModelServer(answer=lambda body: reply) as server:
        llm = {"answer": {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1", "timeout_s": 20.0}}
        with cloned(servers, grown, tmp_path, embedder, llm=llm) as running, serving(running) as site:
            address = href("/ask", owner="bob", question="Where does Bob live?")
            pages = [site.admin.get(address + rest).text for rest in ("", "&view=modes", "&answer=1")]
        calls = len(server.requests)

    assert ["In Boston." in page for page in pages] == [False, False, True] and calls == 1
    assert 'href="#piece-1"' in pages[2] and 'id="piece-1"' in pages[2]
    assert ["What each mode would have returned" in page for page in pages] == [False, True, False]


def test_a_question_counts_as_no_visit(calm: Site) -> None:
    """Given a question in the explorer, then the counts that policies and topics use are as before."""
    stack = calm.stack
    admin = calm.admin
    counter = stack.services.recall.visits
    assert counter is not None
    counter.flush()  # what contexts of other tests have recalled
    before = stack.rows("SELECT count(*), sum(visits) FROM memforest.visit")
    answer = admin.get(href("/ask", owner="bob", question="Where does Bob live?"))
    counter.flush()

    assert "Boston" in answer.text
    assert stack.rows("SELECT count(*), sum(visits) FROM memforest.visit") == before


def test_an_unknown_owner_is_a_page_with_a_sentence_and_a_way_back(calm: Site) -> None:
    admin = calm.admin
    for path in ("/owner", "/states", "/facts", "/graph", "/topics", "/days", "/trees", "/ask", "/context"):
        answer = admin.get(href(path, owner="nobody"))
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "has no memory yet" in answer.text
        assert 'href="/"' in answer.text


@pytest.mark.parametrize(
    "address",
    [
        "/owners?prefix=%00",
        "/owners?cursor=x",
        "/owner",
        "/owner?owner=bob&cursor=%00",
        "/fact?owner=bob&fact=1",
        "/tree?owner=bob&tree=1",
        "/session?owner=bob&session=moving&turn=none",
        "/trees?owner=bob&kind=none",
        "/ask?owner=bob&question=x&mode=none",
        "/context?owner=bob&question=x&tokens=-1",
        "/operation?id=1",
        "/dead?id=1",
        "/costs?days=2",
        "/?span=none",
        "/owner?owner=bob&year=12",
        "/owner?owner=bob&year=x",
        "/search?q=" + "x" * 300,
        "/audit?action=none",
        "/states?owner=bob&cursor=1",
        "/states?owner=bob&since=soon",
        "/states?owner=bob&since=0001-01-01",
        "/graph?owner=bob&until=9999-12-31",
        "/graph?owner=bob&since=2024-05-02&until=2024-05-01",
        "/graph?owner=bob&node=1",
        "/facts?owner=bob&q=" + "x" * 201,
        "/ask?owner=bob&question=" + "x" * 9_000,
    ],
)
def test_a_wrong_address_is_a_sentence(calm: Site, address: str) -> None:
    answer = calm.admin.get(address)

    assert answer.status_code in (200, 400, 404)
    assert (answer.status_code == 200) == (address == "/audit?action=none")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("davis", {"/fact", "/session"}),
        ("DENVER item3", {"/fact", "/session"}),
        ("moving", {"/session"}),
        ("bob", {"/owner", "/fact"}),
        ("<script>", {"/owner", "/session", "/fact"}),
        ("100%_ \\", set()),
        ("'; DROP TABLE turn; --", set()),
    ],
)
def test_a_search_finds_owners_sessions_facts_and_turns(calm: Site, words: str, kinds: set[str]) -> None:
    page = calm.admin.get("/search", params={"q": words}).text
    hits = page[page.index('id="hits"') : page.index("</section>")]

    assert {urlsplit(link).path for link in links(hits)} == kinds
    assert ("Nothing found" in hits) == (not kinds)
    assert "<script>" not in hits


def test_a_search_finds_what_the_key_reaches_alone(calm: Site) -> None:
    """Given keys of some owners and of another tenant, then a search has nothing of others, with words and without."""
    other = Keys(calm.stack.services.engine).create(TenantId("other"), "looker", scope="read").secret
    for secret, owners in ((calm.secret(scope="read", owners="car*"), {"carol"}), (other, set())):
        client = calm.visitor(secret)
        found = [link for q in ("", "i", "bob", "tea") for link in links(client.get("/search", params={"q": q}).text)]
        assert {parse_qs(urlsplit(link).query)["owner"][0] for link in found if "owner=" in link} == owners


def test_a_session_is_called_by_its_first_words_where_no_title_was_imported(stack: Stack, admin: httpx.Client) -> None:
    titled = [{**turn, "metadata": {"title": "Plans for Rome"}} for turn in said("I want to see Rome.")]
    stack.memory.client.enqueue("bob", "planning", titled)
    for page in ("/", "/search", "/owner?owner=bob"):
        shown = admin.get(page).text
        assert "Plans for Rome" in shown and "I live in Davis." in shown, page


@pytest.mark.parametrize(
    ("silent_s", "state", "sentences"),
    [
        (None, "", {"No worker runs", "memforest worker"}),
        (1, "", {"All healthy", "nothing waits"}),
        (86_400, "", {"has sent no heartbeat for 1.0 d", "No worker runs"}),
        (1, "dead", {"1 dead letter:", "Retry or discard"}),
        (1, "old", {"1 item of extract waited, the oldest for 1.0 h", "The vector index is 1.0 h behind"}),
        (1, "idle", {"No worker takes 1 item of reduce.", "memforest worker --queues reduce"}),
        (1, "failing", {" model calls of the last minute failed.", "memforest doctor"}),
    ],
)
def test_the_first_page_says_what_is_wrong_and_what_to_do(
    stack: Stack, admin: httpx.Client, silent_s: float | None, state: str, sentences: set[str]
) -> None:
    """Given workers that beat, are silent or are missing, work that is dead, waits for long or that nobody takes, and
    a model that fails, then the first page says so with its action."""
    stack.execute("DELETE FROM memforest.worker")
    if silent_s is not None:
        stack.services.jobs.register(stack.runtime.worker, "worker", ["extract"])
        stack.execute(f"UPDATE memforest.worker SET heartbeat_at = clock_timestamp() - interval '{silent_s} s'")
    if state == "failing":
        stack.execute(
            "INSERT INTO memforest.llm_call (tenant_id, step, model, outcome, prompt_tokens, completion_tokens, cached_tokens,"
            f" latency_ms, cost_usd) VALUES ('{stack.tenant}', 'extract', 'm', 'timeout', 0, 0, 0, 1, 0)"
        )
    if state in ("old", "idle", "dead"):
        stack.memory.client.enqueue("dan", "one", said("I live in Rome."))
    if state == "old":
        for table, column in (("cell", "created_at"), ("index_row", "available_at")):
            stack.execute(f"UPDATE memforest.{table} SET {column} = {column} - interval '1 h' WHERE state = 'ready'")
    if state == "idle":
        while stack.runtime.extract():
            pass
    if state == "dead":
        with ExtractRows.opened(stack.services.engine, stack.tenant) as rows:
            window = rows.claim_window(stack.runtime.worker, 60.0)
            assert window is not None
            rows.bury_window(window, "crashed", "It crashed.")
    page = admin.get("/").text

    assert {sentence for sentence in sentences if sentence in page} == sentences
    assert ("All healthy" in page) == ("All healthy" in sentences)


def test_the_chart_of_the_first_page_has_all_turns_and_calls(calm: Site) -> None:
    """Given turns that were just accepted, then each span's table adds up to them, whatever the span."""
    admin = calm.admin
    turns = sum(each.turns for each in calm.stack.services.reading.owners(calm.stack.tenant).items)
    for span in ("hour", "day", "month", ""):
        rows = re.findall(r'data-label="Turns" class=n>([\d,]+)<', admin.get("/", params={"span": span}).text)
        assert sum(int(count.replace(",", "")) for count in rows) == turns, span


def test_the_year_of_an_owner_has_the_turns_of_each_month(calm: Site) -> None:
    page = calm.admin.get("/owner", params={"owner": "bob", "year": "2024"}).text
    days = re.findall(r"<title>(\w+ \d+ \w+ 2024): (\d+) turns?</title>", page)

    assert sum(int(count) for _, count in days) > 0
    assert f"{sum(int(count) for _, count in days)} turns, Jan 2024 to Dec 2024" in page
    assert len(re.findall('class="heat-', page)) == 366


def test_what_nobody_expected_is_a_page_too(calm: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a fault of the program, then the page says so in a sentence, without the words of the fault."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("I live in Davis.")

    monkeypatch.setattr(type(calm.stack.services.reading), "owners", broken)
    answer = calm.admin.get("/owners")

    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Something went wrong here" in answer.text
    assert "Davis" not in answer.text


def policy_form(**fields: str) -> dict[str, str]:
    """What the page of policies sends: every field, empty ones too."""
    names = ("owner", "max_age_days", "facts_max_age_days", "digests_max_age_days", "window_max_age_days")
    return dict.fromkeys((*names, "max_facts", "max_bytes"), "") | {"order": "age", "per_cent": "10"} | fields


def test_a_policy_is_set_changed_and_cleared(site: Site, admin: httpx.Client) -> None:
    """Given a form for bob, then his policy is as it says, the page shows it to be changed, and clearing removes it;
    the others' stays."""
    lifecycle = site.stack.memory.lifecycle
    sent = policy_form(owner="bob", max_age_days="365.5", max_facts="500", order="visits", per_cent="2.5")

    assert admin.post("/policies", data=sent, headers=OWN).headers["location"] == "/policies"

    policy = next(each for each in lifecycle.policies() if each.owner == "bob")
    assert (policy.max_age_days, policy.max_facts, policy.max_bytes) == (365.5, 500, None)
    assert (policy.order, policy.fraction) == ("visits", 0.025)
    page = admin.get("/policies", params={"owner": "bob"}).text
    assert 'value="365.5"' in page and 'value="500"' in page and 'value="2.5"' in page
    assert lifecycle.audit("bob", action="set_policy")[0].actor == "looker: explorer"

    admin.post("/policies", data=policy_form(owner="bob", max_bytes="1000"), headers=OWN)
    policy = next(each for each in lifecycle.policies() if each.owner == "bob")
    assert (policy.max_age_days, policy.max_facts, policy.max_bytes) == (None, None, 1_000)

    before = {each.owner for each in lifecycle.policies()}
    admin.post("/policies/clear", data={"owner": "bob"}, headers=OWN)
    assert {each.owner for each in lifecycle.policies()} == before - {"bob"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_facts": "many"}, "max_facts must be a number, or empty for no limit."),
        ({"max_facts": "1.5"}, "max_facts must be a number, or empty for no limit."),
        ({"max_age_days": "nan"}, "max_age_days must be a number of days above 0"),
        ({}, "A policy limits something"),
        ({"max_facts": "1", "per_cent": "0"}, "fraction must be above 0"),
        ({"max_facts": "1", "per_cent": ""}, "Say how many per cent"),
        ({"max_facts": "1", "order": "<b>"}, "order must be one of"),
        ({"max_facts": "1", "owner": "nobody"}, "nobody"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_a_sentence(calm: Site, fields: dict[str, str], sentence: str) -> None:
    before = calm.stack.memory.lifecycle.policies()

    answer = calm.admin.post("/policies", data=policy_form(**fields), headers=OWN)

    assert answer.status_code in (400, 404)
    assert sentence in answer.text
    assert calm.stack.memory.lifecycle.policies() == before


def test_a_policy_is_counted_before_it_is_set(site: Site, admin: httpx.Client) -> None:
    """Given limits that all turns of bob are beyond, when they are only counted, then the page says how many would go,
    that nothing has changed, and has the limits in its form; setting them makes that policy."""
    before = site.stack.memory.lifecycle.policies()
    sent = policy_form(owner="bob", max_age_days="1")
    page = admin.post("/policies", data=sent | {"dry_run": "1"}, headers=OWN).text

    assert re.search(r"The next run would delete <strong>\d+ groups? of turns</strong>", page)
    assert "Turns said more than 1 days ago are deleted" in page and "Nothing has changed yet." in page
    assert 'name="max_age_days" inputmode="decimal" maxlength="20" value="1"' in page
    assert site.stack.memory.lifecycle.policies() == before
    others = admin.post("/policies", data=policy_form(max_facts="1", dry_run="1"), headers=OWN).text
    assert "2 owners counted" in others  # one of the three has a policy of its own
    assert site.stack.memory.lifecycle.policies() == before


def test_policies_are_changed_by_admins_on_our_own_pages(calm: Site) -> None:
    """Given a key of a narrower scope, or a form of another site, then no policy changes."""
    before = calm.stack.memory.lifecycle.policies()
    sent = policy_form(owner="bob", max_facts="1")
    writer, admin = calm.visitor(calm.secret(scope="write")), calm.admin
    bound = calm.visitor(calm.secret(scope="admin", owners="bob"))

    for path in ("/policies", "/policies/clear"):
        assert writer.post(path, data=sent, headers=OWN).status_code == 403
        assert admin.post(path, data=sent, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert bound.post(path, data=sent | {"owner": ""}, headers=OWN).status_code == 403
    assert calm.stack.memory.lifecycle.policies() == before


def test_static_files_are_ours_alone(calm: Site) -> None:
    admin = calm.admin
    for name, kind in STATIC.items():
        assert admin.get(f"/static/{name}").headers["content-type"] == kind
    for name in ("..%2fapp.py", "htmx-LICENSE.txt", "nothing"):
        assert admin.get(f"/static/{name}").status_code == 404


def test_the_api_answers_as_before(calm: Site) -> None:
    """Given the pages at the root, then the API still answers with problems, and takes no cookie."""
    admin = calm.admin
    assert admin.get("/v1/sessions", params={"owner": "bob"}).status_code == 401
    assert admin.get("/v1/nothing").headers["content-type"] == "application/problem+json"
    assert admin.get("/health").json()["status"] == "ok"
    assert "/owners" not in admin.get("/openapi.json").json()["paths"]


def test_headers_are_on_refusals_too(calm: Site) -> None:
    client = calm.visitor(None)
    answers = [client.get("/login"), client.get("/"), client.post("/logout"), client.get("/static/explorer.css")]

    for answer in answers:
        assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_owners_come_by_their_beginning_and_page_by_page(calm: Site) -> None:
    stack = calm.stack
    reading = stack.services.reading
    first = reading.owners(stack.tenant, limit=2)
    rest = reading.owners(stack.tenant, limit=2, cursor=first.cursor)
    bob = next(each for each in (*first.items, *rest.items) if each.owner == "bob")

    assert sorted(each.owner for each in (*first.items, *rest.items)) == sorted(["bob", "carol", EVIL])
    assert rest.cursor is None
    assert (bob.sessions, bob.turns) == (2, 14)
    assert bob.facts == len(stack.memory.facts("bob").items)
    assert [each.owner for each in reading.owners(stack.tenant, prefix="ca").items] == ["carol"]
    assert reading.owners(stack.tenant, prefix="%").items == ()
