"""Text that says nothing of its sender: code, logs, tables, quotes, transcripts, what a request is about, role play."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memforest_core.domain.date_words import MONTH, WEEKDAY
from memforest_core.domain.words.english import RELATIVES

_START = r"(?:^|(?<=[.!?;:] ))[ \t(*_#>-]{0,6}"
_PLEASE = (
    r"(?:(?:hi|hey|hello|ok|okay|now|so|and|then|also|just|please|pls|kindly|(?:can|could|would|will)\s(?:yo)?u|let['’]?s|let\sus|help\sme(?:\sto)?"
    r"|I(?:['’]d\slike|\swant|\sneed)\s(?:you|us)\sto)\b,?!?\s){0,4}"
)
_TEXT = (
    r"(?:(?:sentence|text|paragraph|passage|poem|haiku|essay|article|quote|excerpt|transcript|letter|e-?mail|message|dialog(?:ue)?|novel|song|verse|script"
    r"|limerick|monolog(?:ue)?|screenplay|tweet|caption|chapter|review|abstract|blog|post|resume|cv|bio|snippet|phrase|statement|scene)s?|lyrics|code"
    r"|stor(?:y|ies)|speech(?:es)?|fairy\s?tales?|diary\sentr(?:y|ies)|grammar|spelling|english|wording)"
)
_OBJECT = r"\b[^\n:.!?]{0,60}\b"
_REWORD = (
    r"(?:translate|proof-?read|paraphrase|rephrase|reword|re-?write|summari[sz]e|shorten|spell-?check|transcribe)\b"
)
_ON_A_TEXT = (
    rf"(?:{_REWORD}|(?:fix|correct|edit|improve|polish|revise|simplify|condense|expand|debug|complete|continue|turn|change|(?:reply|respond|answer)\sto)"
    rf"{_OBJECT}(?:these|this|following|below|{_TEXT})\b|(?:check|review|analy[sz]e|explain|read|rate|grade|classify|convert|comment\son|is|are|does"
    rf"|what\s(?:does|is|do\syou)|how\s(?:do|would|can|should)\s(?:you|I|we)){_OBJECT}(?:following|below|mean|say|{_TEXT})\b)"
)
_OWN = rf"(?!{_OBJECT}(?:(?:about|of)\s(?:me|myself)|my\s(?:own\s)?(?:bio|resume|cv|story))\b)"
_FOR_A_TEXT = rf"(?:write|draft|compose|create|generate|make|(?:give|tell)\sme|start|invent){_OWN}{_OBJECT}{_TEXT}\b"
_COLON = r":(?!//|\d)\s*()"
_ANNOUNCED = (
    rf"(?:(?:I(?:['’]d\slike|\swant|\sneed)\sto\s)?{_PLEASE}(?:{_ON_A_TEXT}|{_FOR_A_TEXT}|(?:repeat|say|type|echo)\b)"
    rf"|(?:here(?:['’]s|\sis|\sare)|(?:this|these|below)\s(?:is|are)|see){_OWN}{_OBJECT}{_TEXT}\b)[^\n:.!?]{{0,120}}{_COLON}"
    rf"|{_PLEASE}{_ON_A_TEXT}[^\n:.!?]{{0,120}}(?:(?:(?<=\bthis)|(?<=this\ssentence)|(?<=this\stext))[.!?]+\s+()|[.!?]*\s*\n\s*())"
    r"|(?:(?:for\s)?(?:the|this|my|an?)\s)?(?:(?:song|example|sample|source|system|short|grammar)\s)?(?:quiz|exercise|riddle|lyrics|poem|song|verse|chorus|quote|excerpt|passage|article|transcript|translation|caption"
    r"|dialog(?:ue)?|headline|prompt|sample|snippet|sentence|paragraph|letter|essay|draft|screenplay|script|monologue|joke|fiction|persona|character"
    rf"|(?:grammar|spell)\s?check|scenario|hypothetical|meme|tweet|speech|proverb|motto)(?:\s(?:of|by|from|about|for|in)\b[^\n:.!?]{{0,60}})?{_COLON}"
    r"|()(?:dear\s(?:sir|madam|mr|ms|mrs|hiring|team|customer)\b[^\n]{0,40},|to\swhom\sit\smay\sconcern)"
)
_PLAYED = (
    rf"(){_PLEASE}(?:pretend|act\s(?:as|like)|role-?\s?play|play\sthe\s(?:role|part)|imagine\s(?:that\s)?you|in\scharacter|from\snow\son,?\syou\sare"
    r"|(?:play|do|have|start)\san?\s(?:role-?\s?play|scene|game\s(?:where|in\swhich)))\b|()(?:(?:let['’]?s|please|now|so|just)\s)?"
    r"(?:suppose|assume|imagine|say|supposing|assuming)(?:,?\sthat)?,?\s(?:I|you|we|my\sname)\b"
    r"|()you(?:['’]re|\sare)(?:\snow)?\s(?:(?-i:[A-Z])\w+(?:\s(?-i:[A-Z])\w+)?|the\s\w+|an?\s(?!star|gem|genius|life|angel|friend)\w+)"
    r"(?:[.,;]|\sand)+\s(?:and\s)?(?:I(?:['’]m|\sam|['’]ll\sbe)|my\sname\sis)\b"
    r"|()(?:(?:I|my|you)\b[^\n.!?]{0,200}\s)?(?:in|for|during)\s(?:this|our)\s(?:role-?\s?play|scenario|simulation|skit|(?:game|story),?\s(?:I|you)\b)"
)
_REPORTED = (
    r"(?<!\b[Ii]\s)(?<!\b[Ww]e\s)\b(?:said|says|wrote|writes|texted|replied|answered|messaged|posted|sings|sang|goes|told\s(?:me|us|him|her|them))"
    r"(?:\s(?:to\s)?(?:me|us|this|that|back|today|yesterday))?:\s*()(?=[^\s>])"
)
_CODE = (
    r"()(?:Traceback\s\(most|[\w.]*(?:Error|Exception)\b.*:\s|SELECT\s.|--.*\n(?:SELECT|INSERT)\s|\W{0,2}\d{4}-\d\d-\d\d[T\s]\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d\s|(?:[\d:.,]+\s)?\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)(?:\]|:\w)|diff\s--git\s|@@\s-\d|(?:---|\+{3})\s\w/"
    r"|(?i:insert\s+into\s+\S+\s?\(|update\s+\S+\s+set\s+\S+\s?=|delete\s+from\s+\w+\swhere|(?:create|alter|drop)\s(?:table|view|index)\s)|.*\)\s?\{$"
    r"|\+(?!\s?\d).*\n(?:[+\s].*\n){0,9}-|-.*\n(?:[-\s].*\n){0,9}\+(?!\s?\d)|//|/\*|#!|#include|<\?|\$\s[a-z]|(?:def\s\w+|function\s?\w*)\(|[♪♫🎵🎶]\s?\w"
    r"|class\s\w+[(:]|import\s[\w.{]+;?$|from\s\S+\simport\s|(?:const|let|var)\s\w+\s?=|[\w.]+\s?=+\s?[\"'\[{(]|[\w.]+\([\"'].*\);?$"
    r"|\[[\d/.:,\s-]{5,24}(?:[AP]M)?\]\s?\w[^\n:]{0,40}:\s)"
)
_ABOUT_ONESELF = (
    rf"(?i:my|me|(?:{RELATIVES}|{WEEKDAY}|{MONTH}|name|address|age|birthday|job|work|employer|company|city|country|location|home|phone|e?mail|diet|food"
    r"|allerg\w+|hobb\w+|interests|(?:dis)?likes|pets?|family|status|education|school|languages?|skills|goals?|plans?|about|background|bio|notes?|p?ps"
    r"|fyi|btw|update|edit|todo|date|today|yesterday|tomorrow|morning|afternoon|evening|night|breakfast|lunch|dinner|pros|cons|mood|sleep|health|music"
    r"|movies?|books?|sports?|travel|day|week|year|part|first|second|third|last|next|then|finally|also|step|news|current|before|after|past|future)\b)"
)
_SPEAKER = (
    rf"(?:\[?[\d/.:,\x20APM-]{{4,24}}\]?[\x20-]{{0,4}})?(?!{_ABOUT_ONESELF})[*_<]{{0,2}}(?:[A-Z][\w.'’-]{{0,30}}(?:\s[A-Z\d][\w.'’-]{{0,30}}){{0,2}}"
    r"|user|assistant|human)(?:[*_]{0,2}(?:\s\([^)\n]{1,30}\))?:(?!//|\d)|>)"
)
_PERSON = r"\b(?:I|i|[Mm][ey]|[Yy]ours?|[Yy]ou|[Ww]e|[Oo]ur)\b"
_BLANK = r"\n[ \t\r]*\n(?![-+@ \t])"
_KINDS = {
    r"()(?:^~~~|```)": r"^~~~|```",
    rf"^{_CODE}": _BLANK,
    r"^()(?:[^\n|]*\|.*\n[^\n|]*\||\S[^\n\t]*\t.*\n\S[^\n\t]*\t)": r"\n(?=[^\n|\t]*(?:\n|\Z))",
    r"()[\[{][\s\[{]{0,8}\"[^\"\n]{1,80}\"\s*:": r"[\]}](?=[^\]}]*\Z)",
    r"()<(?!(?:[abius]|em|strong|br|su[bp])\b)[A-Za-z!][^<>\n]{0,200}>(?=(?s:.{0,999})</)": r">(?=[^>]*\Z)",
    rf"{_START}()[\"“«»„‹‘'`][^\"“”«»„‹›`]{{12,2000}}[\"”»«“›’'`][.!?]*(?=\s+[^a-z\s]|\s*\Z)": "",
    rf"^(?=({_SPEAKER}).*\n(?:.*\n){{0,4}}?(?!\1){_SPEAKER})(?=(?:.*\n)?.*{_PERSON})()": rf"\n\s*\n(?!{_SPEAKER})",
    rf"(?i:{_START}(?:{_ANNOUNCED}|{_PLAYED})|^()\[(?:verse|chorus)\b)": r"\Z",
    rf"(?i:\A()(?s:.+){_START}{_PLEASE}{_REWORD}{_OBJECT}(?:this|that|above)\b[^\n:.!?]*)[.!?]*\s*\Z": "",
    _REPORTED: _BLANK,
    rf"{_START}()(?:[Tt]his\sis\s[A-Z]\w+\s(?:on|from|using)\s[A-Z]\w+['’]s"
    rf"|(?:[Ii]t['’]?s\sme,?\s)?[A-Z]\w+['’]s\s(?:{RELATIVES})\shere)\b": r"\Z",
}
"""How each kind begins, with an empty group where its text does, and what ends it; without that the turn does."""
_COMPILED = [(re.compile(opens, re.MULTILINE), re.compile(closes, re.MULTILINE)) for opens, closes in _KINDS.items()]
REQUESTS_TEXT = re.compile(rf"{_PLEASE}(?:{_ON_A_TEXT}|{_FOR_A_TEXT})", re.IGNORECASE)
"""The beginning of a request for a text, or about one: what "I" says in it is not what the speaker says."""


def borrowed(text: str) -> Iterator[tuple[int, int]]:
    """Where each piece of a text that says nothing of its sender starts and ends; they may overlap."""
    for opens, closes in _COMPILED:
        at = 0
        while at < len(text) and (opened := opens.search(text, at)) is not None:
            closed = closes.search(text, opened.end())
            at = closed.end() if closed is not None else len(text)
            yield opened.start(opened.lastindex or 0), at
