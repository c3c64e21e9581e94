"""Masks keys, card numbers, IBANs, e-mail addresses and what an application names, before anything else reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import prometheus_client

from memforest_core.domain.extras import needed
from memforest_core.domain.turns import MAX_METADATA_DEPTH, checked_text
from memforest_core.errors import InvalidInput, InvalidSettings
from memforest_core.settings import RedactSettings

MARKS = {"api_key": "[api key]", "iban": "[IBAN]", "email": "[email address]", "card": "[card number]"}
"""What a kind is replaced by, in the order in which they are looked for."""
FUNCTION = "function"
"""The kind of texts that the application's own function changed."""
MASKED = prometheus_client.Counter("memforest_masked", "What was masked before storing.", ["kind"], registry=None)

_KEYS = r"""
    sk-(?:ant|proj|svcacct|admin|or)-[\w-]{20,} | sk-(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}    # Anthropic, OpenAI, OpenRouter
  | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_\w{30,}                                      # GitHub
  | gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|feat)-[\w-]{20,}                        # GitLab
  | xox[a-z]-[\w-]{10,} | xapp-\d-[\w-]{10,} | (?<=hooks\.slack\.com/services/)[\w/]{20,}     # Slack
  | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])                                                # AWS
  | AIza[\w-]{35} | GOCSPX-[\w-]{20,} | ya29\.[\w-]{20,}                                 # Google
  | hf_[A-Za-z0-9]{30,} | gsk_[A-Za-z0-9]{30,} | xai-[A-Za-z0-9]{40,} | r8_[A-Za-z0-9]{30,} | pplx-[A-Za-z0-9]{40,}
  | [sr]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/]{24,}                      # Stripe
  | npm_[A-Za-z0-9]{36} | pypi-[\w-]{60,} | SG\.[\w-]{16,}\.[\w-]{16,} | do[opr]_v1_[a-f0-9]{64} | dapi[a-f0-9]{32}
  | shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32} | \d{8,10}:AA[\w-]{33} | mf_[\w-]{20,}            # Shopify, Telegram, our own
  | ATATT3[\w=-]{40,} | nvapi-[\w-]{40,} | hvs\.[\w-]{20,} | dckr_pat_[\w-]{20,} | AGE-SECRET-KEY-1[A-Z0-9]{40,}
  | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*                                                   # JWT
"""
_AWS = r"(?:(?:AKIA|ASIA)[A-Z0-9]{16}|(?i:secret)[\w -]{0,24}?)[^A-Za-z0-9/+]{1,20}(?![0-9a-f]{40}\b)"
_BLOCK, _LINE = r"[A-Z0-9 ]{0,30}PRIVATE\ KEY(?:\ BLOCK)?-----", r"(?:\s|\\[nrt])"
_LETTER = r"A-Za-z0-9_\u00c0-\u024f"
_PATTERNS = {
    "api_key": (
        re.compile(rf"{_AWS}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])"),  # first: found by the id
        re.compile(rf"(?<![A-Za-z0-9])(?:{_KEYS})", re.ASCII | re.VERBOSE),
        re.compile(
            rf"""-----BEGIN\ {_BLOCK} (?:{_LINE}*+[A-Za-z-]{{3,20}}:\ [^\n\\]{{1,80}})*+
                 (?>{_LINE}*+[A-Za-z0-9+/=]{{16,}}+)++
                 (?:{_LINE}*+[A-Za-z0-9+/=]{{0,16}}+{_LINE}*+-----END\ {_BLOCK})?""",
            re.VERBOSE,
        ),
    ),
    "email": (
        re.compile(
            rf"(?<![{_LETTER}.+@-])[{_LETTER}][{_LETTER}.+%'-]{{0,63}}@(?:[\w-]{{1,63}}\.(?=[^\W_]))++[^\W\d_]{{2,24}}+"
            r"(?!\w)(?!:[\w/~])"  # not git@host:path
        ),
    ),
}
"""Possessive where parts could be divided in several ways: any text costs about one pass."""
_IBAN = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z]{2}\d{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}))", re.ASCII)
_CARD = re.compile(
    r"(?<!\w)(?<!\d[.,])(?=(\d{12,19}(?!\w)|\d{4}(?P<by>[ \u00a0.-])"
    r"(?:\d{4}(?P=by)\d{4}(?P=by)\d{1,4}(?:(?P=by)\d{3})?|\d{6}(?P=by)\d{4,5})(?!\w)))",
    re.ASCII,
)
_ISSUED = re.compile(
    r"4\d{15}(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12,15}|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12,15}|62\d{14,17}"
    r"|(?:50(?:18|20|38)|5893|6304|6759|676[1-3])\d{8,15}"
)
"""Visa, Mastercard, American Express, Discover, Diners, JCB, UnionPay, Maestro: prefixes with their lengths."""


def _ibans(text: str, start: int, most: int) -> int:
    """Where an IBAN ends that has its country's length and right check digits; its start for none."""
    from stdnum import iban

    head, rest, ends = int("".join(str(int(char, 36)) for char in text[start : start + 4])), 0, list[int]()
    for end, char in enumerate(text[start + 4 : most], start + 5):
        if char.isalnum():
            rest = (rest * (10 if char.isdigit() else 100) + int(char, 36)) % 97
            if (rest * 1_000_000 + head) % 97 == 1 and not text[end : end + 1].isalnum():
                ends.append(end)
    return next((end for end in reversed(ends) if iban.is_valid(text[start:end], check_country=False)), start)


def _cards(text: str, start: int, end: int) -> int:
    """The same of a card number that has an issuer and a right Luhn digit."""
    from stdnum import luhn

    digits = re.sub(r"\D", "", text[start:end])
    return end if _ISSUED.fullmatch(digits) and luhn.is_valid(digits) else start


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds what has one kind: matches of ``pattern`` (their group where it has one), as far as ``check`` says."""

    kind: str
    mark: str
    pattern: Any
    check: Callable[[str, int, int], int] = lambda text, start, end: end

    def masked(self, text: str) -> tuple[str, int]:
        """A text with marks, and how many."""
        parts, at = [], 0
        for found in self.pattern.finditer(text):
            start, end = found.span(min(1, self.pattern.groups))
            if at <= start < (end := self.check(text, start, end)):
                parts += [text[at:start], self.mark]
                at = end
        return "".join([*parts, text[at:]]), len(parts) // 2


@dataclass(frozen=True, slots=True)
class Redactor:
    """Masks texts. What it masked is masked to itself: marks are left alone, until nothing else is found."""

    finders: Sequence[Finder] = ()
    function: Callable[[str], str] | None = None
    marks: re.Pattern[str] = re.compile("((?!))")

    def masked(self, text: str) -> tuple[str, Counter[str]]:
        """A text with marks in place of what must not be stored, and how many by kind.

        Raises InvalidInput when the application's function fails, and for what is not valid Unicode.
        """
        counts: Counter[str] = Counter()
        before = None
        while self.finders and before != text:
            before = text = checked_text(text, "The text")
            for finder in self.finders:
                parts = self.marks.split(text)
                for at in range(0, len(parts), 2):  # between them are marks
                    parts[at], count = finder.masked(parts[at])
                    counts[finder.kind] += count
                text = "".join(parts)
        own = text if self.function is None else _called(self.function, text)
        return own, +(counts + Counter({FUNCTION: int(own != text)}))

    def values(self, value: object, counts: Counter[str], depth: int = 0) -> object:
        """A JSON value with its texts masked and counted; keys stay, and what is too deep to be stored."""
        if isinstance(value, str):
            text, found = self.masked(value)
            counts.update(found)
            return text
        if depth <= MAX_METADATA_DEPTH and isinstance(value, Mapping):
            return {key: self.values(each, counts, depth + 1) for key, each in value.items()}
        if depth <= MAX_METADATA_DEPTH and isinstance(value, list | tuple):
            return [self.values(each, counts, depth + 1) for each in value]
        return value

    def turns(self, messages: Iterable[Mapping[str, object]]) -> list[tuple[Mapping[str, object], Counter[str]]]:
        """Messages with masked content and metadata, each with its counts. Ids and names identify: they stay."""
        found: list[tuple[Mapping[str, object], Counter[str]]] = []
        for raw in messages:
            counts: Counter[str] = Counter()
            masked = {name: self.values(raw[name], counts) for name in ("content", "metadata") if name in raw}
            found.append(({**raw, **masked}, counts))
        return found


NOTHING = Redactor()
"""Masks nothing."""


def counted(masks: Mapping[str, int]) -> dict[str, int]:
    """The masks of what was stored, as this process's metric has them now."""
    for kind, count in masks.items():
        MASKED.labels(kind).inc(count)
    return dict(masks)


def _called(function: Callable[[str], str], text: str) -> str:
    made: object
    try:
        made = function(text)
    except Exception as error:  # noqa: BLE001 - whatever it raises: a text that it did not see is not stored
        made = error
    if isinstance(made, str):
        return made
    gave = f"accept.redact.function gave {type(made).__name__} in place of a text"
    message = f"Nothing is stored or searched: {gave}. Repair it."
    raise InvalidInput(message, code="redaction_failed")


def open_redactor(settings: RedactSettings) -> Redactor:
    """What the settings ask for. Raises InvalidSettings for a pattern that can't be compiled, or without the extra."""
    kinds = [kind for kind in MARKS if kind in settings.kinds]
    finders = [Finder(kind, MARKS[kind], pattern) for kind in kinds for pattern in _PATTERNS.get(kind, ())]
    checked = {"iban": (_IBAN, _ibans), "card": (_CARD, _cards)}
    finders += [Finder(kind, MARKS[kind], *checked[kind]) for kind in kinds if kind in checked]
    if settings.patterns or checked.keys() & kinds:
        with needed("memforest[redact]"):
            import re2
            import stdnum  # noqa: F401
    own = {name: f"[{name}]" for name in settings.patterns}
    marks = "|".join(map(re.escape, (*MARKS.values(), *own.values())))
    for name, pattern in settings.patterns.items():
        options = re2.Options()
        options.log_errors = False
        try:
            finders.append(Finder(name, own[name], re2.compile(pattern, options)))
        except re2.error:
            raise InvalidSettings(
                f"accept.redact.patterns: write {name!r} as RE2 reads it, without lookarounds and backreferences."
            ) from None
    return Redactor(finders, settings.function, re.compile(f"({marks})"))
