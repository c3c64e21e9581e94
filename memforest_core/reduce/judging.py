"""A chat model's say on pairs that are close and not close enough: of facts, and of scenes.

It can only join what the rules leave apart; without it, or when it fails, they stay apart. It is asked with nothing
locked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock

import structlog
from pydantic import BaseModel

from memforest_core.domain.ids import ForestId
from memforest_core.domain.text import clipped
from memforest_core.errors import ContentFault
from memforest_core.forks import renewed_in_child
from memforest_core.models.answers import DATA_ONLY, MODEL_FAILURES, parsed, repaired, request
from memforest_core.models.calls import CallRecord, ChatModel, Step

log = structlog.get_logger(__name__)

MOST_PAIRS = 4
"""Pairs of one kind that one batch asks about, in one call."""
SHOWN_CHARS = 500
REMEMBERED = 1_000
"""Answers that a process remembers, as ids: a batch that is tried again, or bisected, is not judged again."""

_FACTS = """\
You compare facts of a memory. The user message is a JSON document with pairs of statements, each pair with its number.
"same" of your answer are the numbers of the pairs whose two statements say the same, so that the memory loses nothing
when it keeps one of them. Different people, things, amounts, times, places or results are not the same; when in doubt
leave the number out.
"""
_SCENES = """\
You tidy up the topics of a memory. The user message is a JSON document with pairs of topics, each pair with its
number; of each topic you see its title and some of its facts. "same" of your answer are the numbers of the pairs that
one person would call one topic. Two things of one kind (two trips, two projects, two people) are two topics; when in
doubt leave the number out.
"""


class SameAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    same: list[int]


@renewed_in_child
class Judge:
    """Asks the model of the step ``summarize``. Thread-safe."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self._known: OrderedDict[Hashable, bool] = OrderedDict()
        self._lock = Lock()

    def facts(
        self, forest: ForestId, pairs: Mapping[Hashable, tuple[str, str]], calls: list[CallRecord]
    ) -> dict[Hashable, bool]:
        """Whether the two statements of each pair say the same; see ``_judged``."""
        shown = {
            key: {"one": clipped(one, SHOWN_CHARS), "other": clipped(other, SHOWN_CHARS)}
            for key, (one, other) in pairs.items()
        }
        return self._judged(forest, _FACTS, "same_facts", shown, calls)

    def scenes(
        self, forest: ForestId, pairs: Mapping[Hashable, tuple[Sequence[str], Sequence[str]]], calls: list[CallRecord]
    ) -> dict[Hashable, bool]:
        """Whether the two scenes of each pair are one topic: of each its title and some facts; see ``_judged``."""
        shown = {key: {"one": _topic(one), "other": _topic(other)} for key, (one, other) in pairs.items()}
        return self._judged(forest, _SCENES, "same_topics", shown, calls)

    def known(self, key: Hashable) -> bool | None:
        """What was answered about a pair, if it is remembered."""
        with self._lock:
            return self._known.get(key)

    def _judged(
        self,
        forest: ForestId,
        system: str,
        name: str,
        pairs: Mapping[Hashable, Mapping[str, object]],
        calls: list[CallRecord],
    ) -> dict[Hashable, bool]:
        """What is known of the pairs, by their keys; a pair that the model did not judge has no entry.

        One call for those that were not judged before. A model that fails is no error: it is logged by the forest's id.
        """
        found = {key: known for key in pairs if (known := self.known(key)) is not None}
        open_ = [key for key in pairs if key not in found]
        if not open_:
            return found
        document = {"pairs": [{"number": number, **pairs[key]} for number, key in enumerate(open_, 1)]}
        first = request(Step.SUMMARIZE, system + DATA_ONLY, document, SameAnswer, name, temperature=0.0)

        def read(text: str) -> frozenset[int]:
            same = frozenset(parsed(text, SameAnswer).same)
            unknown = sorted(same - set(range(1, len(open_) + 1)))
            if unknown:
                raise ContentFault(f'"same" names {unknown[0]}, which was not shown')
            return same

        try:
            same, _ = repaired(self._chat, first, read, calls)
        except MODEL_FAILURES as error:
            log.warning("pairs_not_judged", forest=str(forest), kind=name, pairs=len(open_), code=error.code)
            return found
        judged = {key: number in same for number, key in enumerate(open_, 1)}
        with self._lock:
            self._known |= judged
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found | judged


def _topic(texts: Sequence[str]) -> dict[str, object]:
    title, *facts = texts
    return {"title": title, "facts": [clipped(fact, SHOWN_CHARS) for fact in facts]}
