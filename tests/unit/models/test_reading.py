"""Whatever surrounds a model's answer, and whatever is wrong with parts of it, the rest of it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memforest_core.assistant.condensing import DigestReply, SummaryReply
from memforest_core.assistant.context.portraits import MergedAnswer
from memforest_core.assistant.profile.describing import ProfileAnswer
from memforest_core.assistant.profile.forgetting import ChoiceAnswer
from memforest_core.assistant.profile.intents import IntentAnswer
from memforest_core.domain.text import clipped, is_loop
from memforest_core.errors import ContentFault
from memforest_core.ingest.extract.extraction_prompt import MAX_ITEMS, ExtractionAnswer
from memforest_core.ingest.refresh.summarizer import TitleAnswer
from memforest_core.models.answer_reading import described, read, unwrapped
from memforest_core.models.answers import parsed
from memforest_core.recall.answer import Reply as AnswerReply
from memforest_core.recall.browse import RankingAnswer
from memforest_core.recall.plan import PlanAnswer, RewritingAnswer

KIM: dict[str, Any] = {"text": "Kim moved to Bergen.", "turns": [1], "value": "Bergen"}
CAT: dict[str, Any] = {"text": "Kim has a cat named Pip.", "turns": [2], "entities": ["Pip"]}
BOTH = {"items": [KIM, CAT], "summaries": [{"cell": 1, "text": "Kim tells about Bergen."}]}
GOOD = json.dumps(BOTH)


def texts(text: str) -> list[str]:
    return [item.text for item in read(text, ExtractionAnswer).answer.items]


WRAPPED = {
    "bare": GOOD,
    "byte order mark": f"\ufeff{GOOD}",
    "fenced as json": f"```json\n{GOOD}\n```",
    "fenced in one line": f"```{GOOD}```",
    "fenced in prose": f"Sure!\n```json\n{GOOD}\n```\nAnything else?",
    "in prose": f"Here is the memory:\n\n{GOOD}\n\nLet me know if you need more.",
    "prose with brackets": f"Turn [1] says {{a}}. So: {GOOD} I left {{empty}} fields out.",
    "thoughts": f"<think>The {{user}} moved [1].</think>\n{GOOD}",
    "thoughts without a beginning": f"So {{items}} are two.\n</think>\n\n{GOOD}",
    "a draft in thoughts": f"<thinking>{json.dumps({'items': [KIM]})}</thinking>{GOOD}",
    "trailing commas": GOOD.replace("}]", "},]").replace("]}", "],}"),
    "comments": GOOD.replace('"summaries"', '// none of "these"\n"summaries"'),
    "block comments": GOOD.replace('"summaries"', '/* {none} */ "summaries"'),
    "hashes": GOOD.replace('"summaries"', '# none\n"summaries"'),
    "python": repr(BOTH | {"note": None, "sure": True}),
    "keys without quotes": GOOD.replace('"items"', "items").replace('"text"', "text"),
    "curly quotes": GOOD.replace('"items"', "\N{LEFT DOUBLE QUOTATION MARK}items\N{RIGHT DOUBLE QUOTATION MARK}"),
    "no comma": GOOD.replace("}, {", "} {", 1),
    "a bracket too many": f"{GOOD}}}]",
    "no last bracket": GOOD[:-1],
    "as a text": json.dumps(GOOD),
    "in a wrapper": json.dumps({"result": {"memory": BOTH}}),
    "in a text in a wrapper": json.dumps({"name": "extraction", "arguments": GOOD}),
    "an array of it": json.dumps([BOTH]),
    "a bare array": json.dumps(BOTH["items"]),
    "a bare array with a comma too many": json.dumps(BOTH["items"])[:-1] + ",]",
    "under another name": json.dumps({"facts": BOTH["items"]}),
    "an object a line": f"{json.dumps(KIM)}\n{json.dumps(CAT)}",
    "an empty one first": f'{{"items": [], "summaries": []}}\n{GOOD}',
    "an empty one last": f'{GOOD}\n{{"items": []}}',
    "other spelling": GOOD.replace('"items"', '"Items"').replace('"turns"', '"Turns"'),
    "numbered": json.dumps({"items": {"1": KIM, "2": CAT}}),
    "items as texts": json.dumps({"items": [json.dumps(KIM), json.dumps(CAT)]}),
    "items as one text": json.dumps({"items": json.dumps([KIM, CAT])}),
    "no summaries": json.dumps(BOTH | {"summaries": None}),
    "summaries of another type": json.dumps(BOTH | {"summaries": "none"}),
}


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED)
def test_an_answer_is_found_in_whatever_surrounds_it(text: str) -> None:
    assert texts(text) == [KIM["text"], CAT["text"]]


LONG = " ".join(f"word{number}" for number in range(100))
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nulls": (dict.fromkeys(("quote", "subject", "entities", "change", "polarity", "when", "scene")), {}),
    "a number": ({"value": 79}, {"value": "79"}),
    "a fraction": ({"value": 79.5}, {"value": "79.5"}),
    "a whole fraction": ({"value": 79.0}, {"value": "79"}),
    "a truth": ({"value": True}, {"value": "true"}),
    "a list": ({"value": ["red", 3]}, {"value": "red, 3"}),
    "an object": ({"value": {"city": "Bergen", "country": "Norway"}}, {"value": "Bergen, Norway"}),
    "a named object": ({"subject": {"type": "person", "name": "Kim"}}, {"subject": "Kim"}),
    "entities as objects": ({"entities": [{"name": "Bergen", "type": "city"}, None]}, {"entities": ["Bergen"]}),
    "entities as text": ({"entities": "Bergen, Pip"}, {"entities": ["Bergen", "Pip"]}),
    "an unknown word": ({"change": "moved", "modality": "sure"}, {"change": "none", "modality": "asserted"}),
    "an empty word": ({"change": "", "polarity": ""}, {"change": "none", "polarity": "positive"}),
    "a word in capitals": ({"change": "SWITCH"}, {"change": "switch"}),
    "a turn": ({"turns": 1}, {"turns": [1]}),
    "a turn as text": ({"turns": "1"}, {"turns": [1]}),
    "turns with letters": ({"turns": ["T1", "turn 2"]}, {"turns": [1, 2]}),
    "turns as one text": ({"turns": "1, 2 and 3"}, {"turns": [1, 2, 3]}),
    "turns as objects": ({"turns": [{"number": 2}]}, {"turns": [2]}),
    "turns that are no numbers": ({"turns": ["all", True, "-1", 1.5, 10**12]}, {"turns": []}),
    "no turns": ({"turns": None}, {"turns": []}),
    "a long quote": ({"quote": LONG}, {"quote": clipped(LONG, 400)}),
    "a long scene": ({"scene": LONG}, {"scene": clipped(LONG, 200)}),
    "a field nobody asked for": ({"confidence": 1, "meta": {"a": [1]}}, {}),
    "NUL and a lone surrogate": ({"value": "Ber\x00gen\ud800"}, {"value": "Bergen"}),
}


@pytest.mark.parametrize(("changed", "expected"), FIELDS.values(), ids=FIELDS)
def test_a_field_of_another_type_is_read_or_absent(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    (item,) = read(
        json.dumps({"items": [{"text": "Kim moved to Bergen.", "turns": [1]} | changed]}), ExtractionAnswer
    ).answer.items

    found = item.model_dump(mode="json")
    assert {name: found[name] for name in expected} == expected
    assert item.model_fields_set <= {"text", "turns"} | expected.keys()


def test_what_is_wrong_with_items_is_counted_by_kind() -> None:
    loop = "Kim moved to Bergen. " * 60
    broken = [{"text": None, "turns": [1]}, {"turns": [2]}, "Kim", 7, None, {"text": loop, "turns": [1]}]
    reading = read(json.dumps({"items": [KIM, *broken], "summaries": [{"text": "Of no cell."}]}), ExtractionAnswer)

    assert [item.text for item in reading.answer.items] == [KIM["text"]]
    assert described(reading.faults) == "5 items had no text, 1 item repeated its text, 1 summary had no cell"
    assert not reading.cut


def test_too_many_items_are_cut_at_the_limit() -> None:
    assert len(texts(json.dumps({"items": [KIM] * (MAX_ITEMS + 9)}))) == MAX_ITEMS


@pytest.mark.parametrize("quoted", ['"', "'"])
def test_wherever_an_answer_is_cut_off_its_whole_items_are_read_and_no_other(quoted: str) -> None:
    full = json.dumps({"items": [KIM | {"quote": "it's {so}"}, CAT]}) if quoted == '"' else repr({"items": [KIM, CAT]})
    ends = [
        at for at in range(len(full)) if full[at] == "}" and full[: at + 1].count("}") - full[: at + 1].count("{so}")
    ]
    for at in range(full.index("[") + 1, len(full) - 2):
        reading = read(full[:at], ExtractionAnswer)
        whole = sum(end < at for end in ends)
        assert [item.text for item in reading.answer.items] == [KIM["text"], CAT["text"]][:whole], full[:at]
        assert reading.cut


NOTHING = {
    "nothing": "",
    "prose": "I could not find anything worth remembering in turn 1.",
    "prose with brackets": "Turn [1] and [2, 3] say {nothing} of use: {ok}.",
    "prose with quotes": 'She said "items" and [it\'s "text"] to {me: "turns"}.',
    "thoughts without an end": f"<think>{GOOD}",
    "a number": "7",
    "an endless number": '{"n": ' + "9" * 5_000 + "}",
    "another schema": json.dumps({"verdict": "fine", "note": [1, 2, 3]}),
    "a mail": "items:\n- text: Kim moved\n  turns: [1]",
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("shape", [ExtractionAnswer, ChoiceAnswer, ProfileAnswer, TitleAnswer, RankingAnswer])
def test_nothing_is_made_of_texts_that_are_no_answer(text: str, shape: type[BaseModel]) -> None:
    with pytest.raises(ContentFault):
        parsed(text, shape)


SENTENCE = {"text": "Kim lives in Bergen.", "states": ["1"], "facts": [1], "days": "None"}
SIBLINGS: dict[str, tuple[type[BaseModel], Any, dict[str, Any]]] = {
    "title": (TitleAnswer, [{"Title": ["Moving", "Bergen"]}], {"title": "Moving, Bergen"}),
    "answer": (
        AnswerReply,
        {"reply": {"answer": 79, "citations": "1, 2", "supported": "yes"}},
        {"answer": "79", "citations": [1, 2], "supported": True},
    ),
    "silence": (
        AnswerReply,
        {"answer": None, "citations": None, "supported": False, "why": "-"},
        {"answer": "", "citations": [], "supported": False},
    ),
    "profile": (ProfileAnswer, [SENTENCE], {"sentences": [{"text": "Kim lives in Bergen.", "states": [1]}]}),
    "choice": (ChoiceAnswer, ["1", 3], {"facts": [1, 3]}),
    "intent": (
        IntentAnswer,
        {"kind": "NONE", "object": None},
        {"kind": "none", "object": "", "about": "", "alias": ""},
    ),
    "days": (
        DigestReply,
        {"digests": {"number": "1", "text": "Kim moved."}},
        {"digests": [{"number": 1, "text": "Kim moved."}]},
    ),
    "summary": (
        SummaryReply,
        {"output": {"summary": ["Kim moved.", "Kim rests."]}},
        {"summary": "Kim moved., Kim rests."},
    ),
    "ranking": (
        RankingAnswer,
        {"order": ["2", 1], "none_relevant": "false"},
        {"order": [2, 1], "none_relevant": False},
    ),
    "plan": (
        PlanAnswer,
        {"question_type": "guess", "plan": "DIRECT", "trees": [{"tree": "1", "ask": "Where?"}, "?"]},
        {},
    ),
    "rewriting": (
        RewritingAnswer,
        {"question": "Where does Kim live?", "why": 1},
        {"question": "Where does Kim live?"},
    ),
    "merged": (
        MergedAnswer,
        {"sentences": [SENTENCE]},
        {"sentences": [{"text": "Kim lives in Bergen.", "facts": [1], "days": "none"}]},
    ),
}


@pytest.mark.parametrize(("shape", "document", "expected"), SIBLINGS.values(), ids=SIBLINGS)
def test_every_kind_of_answer_is_read_in_the_same_way(
    shape: type[BaseModel], document: Any, expected: dict[str, Any]
) -> None:
    text = f"```json\n{json.dumps(document)[:-1]}"
    closing = "]" if isinstance(document, list) else "}"
    if not expected:
        with pytest.raises(ContentFault, match="had no question_type"):
            parsed(f"{text}{closing}\n```", shape)
        return

    assert parsed(f"{text}{closing}\n```", shape).model_dump(mode="json") == expected


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (ChoiceAnswer, '{"facts": [1, 2'),
        (TitleAnswer, '{"title": "Moving to Ber'),
        (ChoiceAnswer, 'Sure: {items: [{"facts": [1]}'),
        (ProfileAnswer, '{"sentences": [{"text": "Kim lives in Bergen.", "states": [1]}, {"text": "Kim'),
        (AnswerReply, '{"answer": "In Bergen.", "citations": [1], "supported": true, "wh'),
    ],
)
def test_an_answer_that_is_no_list_of_facts_counts_only_when_it_is_complete(shape: type[BaseModel], text: str) -> None:
    with pytest.raises(ContentFault, match="cut off"):
        parsed(text, shape)


def test_numbers_in_prose_are_no_choice() -> None:
    for text in ("[1] and [2]", "Facts [1, 2].", "[1, 2,]", '{"verdict": [1, 2]}'):
        with pytest.raises(ContentFault):
            parsed(text, ChoiceAnswer)


def test_a_summary_loses_its_thoughts_and_fences_and_a_loop_is_seen() -> None:
    assert unwrapped("<think>Short.</think>\n```\nKim moved.\n```") == "Kim moved."
    assert unwrapped("It is short.</think> Kim moved.") == "Kim moved."
    assert is_loop("Kim moved to Bergen. " * 60) and is_loop("猫が好きです。" * 60)
    assert not is_loop(" ".join(f"Kim paid {n} dollars for a lamp with number {n * 7}." for n in range(40)))


MARKS = [*"{}[]\",:\\'`/#\n ", "null", "None", "true", "1", "-2", "NaN", "1e999", "\\u00", "\ud83d", "ok", "// ", "/*"]
PARTS = ['"items"', '"text"', '"turns"', "```json", "<think>", "</think>", '{"items": [', "]}", json.dumps(KIM)]
ITEMS = st.sampled_from([*MARKS, *PARTS])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["items", "summaries", "text", "turns", "value", "cell", "change", "x"]), inner
        )
    ),
)
SHAPES = st.sampled_from([ExtractionAnswer, ProfileAnswer, ChoiceAnswer, AnswerReply, PlanAnswer, DigestReply])


@given(st.lists(ITEMS).map("".join) | st.text() | JSON.map(json.dumps) | JSON.map(repr), SHAPES)
def test_any_text_is_read_or_is_a_fault_and_no_item_is_without_a_text(text: str, shape: type[BaseModel]) -> None:
    try:
        answer = read(text, shape).answer
    except ContentFault:
        return
    json.dumps(answer.model_dump(mode="json")).encode()
    if isinstance(answer, ExtractionAnswer):
        assert all(item.text.strip() for item in answer.items)
        assert all(len(item.text) <= 2_000 and len(item.turns) <= 16 for item in answer.items)
