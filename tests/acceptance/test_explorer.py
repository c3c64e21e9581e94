"""The pages as a person uses them, in a real browser over a node at work: from the login to a fact that is forgotten."""

from __future__ import annotations

import json
import socket
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memforest_core.cli.demo_data import load_conversation
from memforest_core.client.api import MemForest
from memforest_core.service.explorer.explorer_app import PAGES as EVERY_PATH
from memforest_core.service.explorer.page_requests import href
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import Keys
from tests.harness.accessibility import grave_faults
from tests.harness.chromium import Chromium, Tab
from tests.harness.processes import MEMFOREST, announcement, program

OWNER = "bob"
WIDTHS = (1_400, 390)
PAGES = (
    "/",
    "/owners",
    "/search",
    href("/search", q="bob"),
    *(href(path, owner=OWNER) for path in ("/owner", "/states", "/facts", "/graph", "/topics", "/days", "/trees")),
    href("/ask", owner=OWNER, question="Where did Bob live before Seattle?"),
    href("/context", owner=OWNER, question="Where does Bob live?"),
    href("/session", owner=OWNER, session="chat-2025-04-06"),
    *("/operations", "/audit", "/policies", "/dead", "/costs"),
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    """A node that remembers the demo's conversation."""
    with MemForest.embedded(tmp_path_factory.mktemp("memory")) as running:
        for session in load_conversation():
            running.ingest(session.owner, session.session_id, list(session.turns))
        running.flush(OWNER)
        yield running


@pytest.fixture(scope="module")
def address(memory: MemForest) -> Iterator[str]:
    server = HttpServer(memory, listen("127.0.0.1", 0))
    server.start()
    yield server.address
    server.stop()


@pytest.fixture
def key(memory: MemForest) -> str:
    return Keys(memory.services.engine).create(memory.tenant, "browser", scope="admin").secret


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with Chromium(tmp_path).tab() as opened:
        opened.resize(WIDTHS[0])
        yield opened
        assert opened.complaints == []


def log_in(tab: Tab, address: str, key: str) -> None:
    tab.open(address)
    tab.fill("#key", key)
    tab.follow("Log in")


def test_a_person_recalls_opens_a_tree_follows_a_fact_to_its_turn_and_forgets_it(
    memory: MemForest, address: str, key: str, tab: Tab
) -> None:
    """Given a browser without a key, when its person logs in, enters a question, opens the tree that voted, follows a
    fact to the turn that said it, and forgets the fact and its turn, then both are gone for them and for recall."""
    log_in(tab, address, key)
    assert "Overview" in tab.text
    tab.click(".people a")
    tab.follow("Ask")
    tab.fill("#question", "Where does Maya live?")
    tab.click("main form.ask button")
    assert tab.run("document.querySelectorAll('.evidence > li').length") == 10
    assert tab.run("document.querySelectorAll('.evidence > li:first-child .stack rect').length") > 2

    tab.click(".evidence .path a")
    assert tab.run("document.querySelectorAll('#tree rect.node').length") > 3
    while not tab.run("document.querySelector('#node h2').innerText.startsWith('Leaf')"):
        tab.click("#node .children a")

    tab.open(address + href("/facts", owner=OWNER))
    wanted = "Nine people report to Bob now"
    found = f"[...document.querySelectorAll('main td a')].find(a => a.innerText.includes({json.dumps(wanted)}))"
    # Pages begin with the fact that was learned last, and sessions are reduced in any order.
    while not tab.run(f"!!{found}"):
        tab.follow("Older facts")
    tab.run(f"{found}.id = 'it'")
    tab.click("#it")
    fact = tab.url
    tab.click(".turn .source")
    said = str(tab.run("document.querySelector('#wanted').innerText"))
    assert "Nine people report to me now" in said
    assert wanted in said

    tab.open(fact)
    tab.follow("Forget this fact")
    tab.follow("Forget")
    tab.until("document.querySelector('.receipt .good') !== null")
    assert "clean: nothing refers to it" in tab.text
    tab.open(fact)
    assert "has no fact" in tab.text
    tab.complaints.clear()  # the browser notes each page that is not found

    tab.open(address + href("/session", owner=OWNER, session="chat-2025-04-06", turn="chat-2025-04-06-05"))
    assert wanted not in tab.text
    tab.click("#wanted .act")
    tab.follow("Forget")
    tab.until("document.querySelector('.receipt .good') !== null")
    tab.open(address + href("/session", owner=OWNER, session="chat-2025-04-06", turn="chat-2025-04-06-05"))
    assert "Forgotten." in str(tab.run("document.querySelector('#wanted').innerText"))
    found = memory.recall(OWNER, "How many people report to Bob?")
    assert all("people report to" not in piece.text for piece in found.evidence)


def test_drawings_answer_to_the_pointer(address: str, key: str, tab: Tab) -> None:
    """Given the drawings, when a person drags over a time, points to somebody, zooms, and opens a context, then the
    page shows these days, lights the neighbours, moves, and has the turns around."""
    log_in(tab, address, key)
    tab.open(address + href("/states", owner=OWNER))
    before = tab.run("document.querySelectorAll('.lane').length")
    for kind, share in (("down", 0.7), ("move", 0.9), ("up", 0.9)):
        point = f"clientX: box.left + box.width * {share}, pointerId: 1, bubbles: true"
        strip = "const strip = document.querySelector('.strip'), box = strip.getBoundingClientRect()"
        held = "strip.setPointerCapture = () => {}"
        tab.run(
            f"(() => {{ {strip}; {held}; strip.dispatchEvent(new PointerEvent('pointer{kind}', {{ {point} }})) }})()"
        )
    tab.until("location.search.includes('since=2024') && document.readyState === 'complete'")
    assert 0 < tab.run("document.querySelectorAll('.lane').length") < before

    tab.open(address + href("/graph", owner=OWNER))
    tab.run("document.querySelector('.entity').dispatchEvent(new PointerEvent('pointerenter'))")
    lit, everybody = (tab.run(f"document.querySelectorAll('{which}').length") for which in (".entity.on", ".entity"))
    assert 1 < lit < everybody
    wheel = "new WheelEvent('wheel', { deltaY: -300, ctrlKey: true, cancelable: true, clientX: 700, clientY: 500 })"
    tab.run(f"document.querySelector('.net').dispatchEvent({wheel})")
    assert "scale" in tab.run("document.querySelector('.moves').getAttribute('transform')")

    tab.open(address + href("/ask", owner=OWNER, question="Where does Maya live?"))
    tab.run("document.querySelector('.evidence .button').click()")
    tab.until("document.querySelectorAll('.around .turn').length > 2")
    assert tab.url.endswith(href("/ask", owner=OWNER, question="Where does Maya live?"))


def every_page(tab: Tab, address: str, memory: MemForest) -> list[str]:
    """An address of each page there is, of a tree, a fact and an operation too."""
    operation = memory.lifecycle.forget(OWNER, session="chat-2023-05-21", actor="test", dry_run=True)
    operation.wait()
    found = [*PAGES, href("/operation", id=operation.id, owner=OWNER)]
    found.append(href("/forget", owner=OWNER, session="chat-2023-03-14"))
    for page, kind in (("/trees", "/tree?"), ("/facts", "/fact?")):
        tab.open(address + href(page, owner=OWNER))
        found.append(str(tab.run(f"document.querySelector('main a[href^=\"{kind}\"]').getAttribute('href')")))
    assert {urlsplit(path).path for path in found} | {"/node"} == set(EVERY_PATH)
    return found


@pytest.mark.parametrize(("width", "dark"), [(width, dark) for width in WIDTHS for dark in (False, True)])
def test_all_pages_fit_their_window_and_everybody_can_use_them(
    memory: MemForest, address: str, key: str, tab: Tab, width: int, dark: bool
) -> None:
    """Given every page on a desk and a phone, in the light and in the dark, then none is wider than its window, none
    makes the browser complain, each has one heading, and axe-core finds no serious and no critical fault."""
    tab.resize(width, dark=dark)
    tab.open(address)
    faults = {"/login": grave_faults(tab)}
    log_in(tab, address, key)
    for path in every_page(tab, address, memory):
        tab.open(address + path)
        wide = tab.run("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} is {wide} pixels wide on {width}"
        assert tab.run("document.querySelectorAll('h1').length") == 1, path
        faults[path] = grave_faults(tab)
    assert {path: found for path, found in faults.items() if found} == {}
    assert tab.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 19, 17)" if dark else "rgb(247, 248, 247)"
    )


def test_control_k_searches_everywhere_by_keyboard_alone(address: str, key: str, tab: Tab) -> None:
    """Given any page, when Ctrl-K is pressed and words are written, then what is found is listed, and the arrows and
    Enter open it; a search without scripts is a page."""
    log_in(tab, address, key)
    press = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))"
    tab.open(address + "/costs")
    tab.run(press.replace("document.dispatch", "document.body.dispatch"))
    tab.until("document.querySelectorAll('.palette[open] .hits a').length > 0")
    tab.fill(".palette input", "marathon")
    tab.run("document.querySelector('.palette input').dispatchEvent(new Event('input', {bubbles: true}))")
    tab.until("document.querySelector('.palette .hits mark')?.innerText.toLowerCase() === 'marathon'")
    assert grave_faults(tab) == []
    chosen = "document.querySelector('.palette [data-chosen]').getAttribute('href')"
    first = tab.run(chosen)
    arrow = (
        "document.querySelector('.palette input').dispatchEvent(new KeyboardEvent('keydown', {key: %r, bubbles: true}))"
    )
    tab.run(arrow % "ArrowDown")
    second = str(tab.run(chosen))
    assert second != first
    tab.run("document.querySelector('.palette [data-chosen]').id = 'it'")
    tab.click("#it")
    assert tab.url.removeprefix(address).split("#")[0] == second.split("#")[0]


def test_a_chart_shows_its_values_at_the_pointer(address: str, key: str, tab: Tab) -> None:
    log_in(tab, address, key)
    tab.run(
        "document.querySelector('.chart .hit:last-of-type .band').dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))"
    )
    assert " turns, " in str(tab.run("document.querySelector('.tip').innerText"))
    tab.run("document.querySelector('h1').dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))")
    assert tab.run("document.querySelector('.tip').hidden")


def test_a_list_shows_ten_on_a_phone_and_all_on_demand(memory: MemForest, address: str, key: str, tab: Tab) -> None:
    for number in range(12):
        memory.enqueue(f"zoe{number:02}", "one", [{"role": "user", "content": "I live in Rome.", "name": "Zoe"}])
    shown = "[...document.querySelectorAll('main tbody tr')].filter(row => row.offsetHeight > 0).length"
    log_in(tab, address, key)
    tab.open(address + "/owners?prefix=zoe")
    assert tab.run(shown) == 12
    tab.resize(WIDTHS[1])
    assert tab.run(shown) == 10
    tab.run("document.querySelector('.all input').click()")
    assert tab.run(shown) == 12


def test_the_pages_work_without_scripts(address: str, key: str, tmp_path: Path) -> None:
    """Given a browser that runs no script, then its person can log in, enter a question, open a tree and count what
    would be deleted."""
    with Chromium(tmp_path).tab(scripts=False) as tab:
        log_in(tab, address, key)
        tab.open(address + href("/ask", owner=OWNER, question="Where does Bob live?"))
        assert tab.run("document.querySelectorAll('.evidence > li').length") == 10
        tab.open(address + href("/trees", owner=OWNER))
        tab.click("main table a")
        assert tab.run("document.querySelectorAll('#tree rect.node').length") > 3
        tab.open(address + href("/forget", owner=OWNER, session="chat-2023-03-14"))
        tab.follow("Only count what would go")
        assert "only counted" in tab.text
        tab.open(address + href("/search", q="marathon"))
        tab.click("#hits a[href^='/fact?']")
        assert "marathon" in tab.text
        tab.follow("Log out")
        tab.open(address + "/owners")
        assert "Log in with a key" in tab.text


def test_the_cookie_is_out_of_reach(address: str, key: str, tab: Tab) -> None:
    log_in(tab, address, key)
    (cookie,) = tab.cookies()

    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert tab.run("document.cookie") == ""
    assert key not in tab.html


def test_an_injected_script_is_refused_by_the_policy(address: str, key: str, tab: Tab) -> None:
    """Given a script and a style that somebody got into a page, then the browser runs neither."""
    log_in(tab, address, key)
    tab.run("document.body.insertAdjacentHTML('beforeend', '<p id=styled style=\"position:fixed\">x</p>')")
    tab.run(
        "(() => { const s = document.createElement('script'); s.text = 'window.ran = 1'; document.body.append(s) })()"
    )

    assert tab.run("window.ran === undefined")
    assert tab.run("getComputedStyle(document.querySelector('#styled')).position") == "static"
    assert tab.complaints != []
    tab.complaints.clear()


def test_a_page_follows_the_work_that_is_done_meanwhile(memory: MemForest, address: str, key: str, tab: Tab) -> None:
    """Given the page of a session that was just handed over, then it shows its facts once they are there, by itself."""
    log_in(tab, address, key)
    memory.enqueue("ann", "new", [{"role": "user", "content": "I moved to Lisbon in May 2024.", "name": "Ann"}])
    tab.open(address + href("/session", owner="ann", session="new"))
    tab.until("document.querySelector('#live .stat dd').innerText === 'summaries'")
    assert tab.run("document.querySelector('#live').hasAttribute('hx-get')") is False
    assert tab.run("document.querySelectorAll('#live .gave').length") > 0


def test_up_serves_the_pages_and_leads_to_them(tmp_path: Path, tab: Tab) -> None:
    """Given a node that was started, then its announcement names the page and a file with a key, which only its user
    can read and which logs in; started again, it is the same key."""
    keys = set()
    for _ in range(2):
        with program(*MEMFOREST, "up", "--data", tmp_path / "data", "--json", MEMFOREST_SERVER__PORT="0") as process:
            reported = announcement(process)
            file = Path(reported["key_file"])
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            keys.add(file.read_text().strip())
            tab.open(reported["page"])
            tab.fill("#key", next(iter(keys)))
            tab.follow("Log in")
            assert "embedded" in tab.text
            tab.follow("Log out")
        assert process.returncode == 0
    assert len(keys) == 1


def test_up_serves_its_pages_at_a_free_port_when_its_own_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with program(*MEMFOREST, "up", "--data", tmp_path / "data", "--json", MEMFOREST_SERVER__PORT=port) as process:
            reported = announcement(process)
            process.terminate()
            _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert port in err and not reported["page"].endswith(port)
    assert f"Until then pages are served at {reported['page']}." in err


def test_the_demo_leaves_its_node_running_and_names_the_page(tmp_path: Path) -> None:
    demo = (*MEMFOREST, "demo", "--keep", "--json", "--data", tmp_path / "data")
    with program(*demo, MEMFOREST_SERVER__PORT="0") as process:
        page = announcement(process)["page"]
        with urllib.request.urlopen(f"{page['address']}/login", timeout=20) as answer:
            assert "Log in" in answer.read().decode()
    assert process.returncode == 0
    assert (tmp_path / "data" / "key").exists()
