"""Refuse the words of vocabulary.txt in names, comments, docstrings, messages, documents and commit subjects.

Quoted talk, inline code, raw strings and prompts are not checked. vocabulary-allowed.txt lists the true uses.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PRODUCT = ("memforest_core/", "memforest_workers/")
SUFFIXES = (".py", ".md", ".html", ".sql", "", ".yml", ".yaml", ".toml", ".service", ".example")
QUOTED = re.compile(r'```.*?```|https?://[^\s)>]+|`(?:[^`\n]|\n(?!\n))*`|"(?:[^"\n]|\n(?!\n))*"|“[^”]*”', re.DOTALL)
NOT_PROSE = re.compile(r'[bf]*r|f?"""\\\n', re.IGNORECASE)  # how patterns and prompts begin
SENTENCE_END = re.compile(r"[.:;!?]\s|\n\s*\n")
Text = tuple[int, str, str]  # line, kind ("name", "prose" or "string") and what is there


def table(name: str) -> list[list[str]]:
    lines = (HERE / name).read_text().splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in lines if line and not line.startswith("#")]


@cache
def any_of(words: str) -> re.Pattern[str]:
    phrases = [r"\s+".join(map(re.escape, phrase.split())) for phrase in words.split(",")]
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


def blank(match: re.Match[str]) -> str:
    return re.sub(r"\S", " ", match[0])


def python_texts(source: str) -> Iterator[Text]:
    is_first = True  # in its statement: a string there is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, kind, text = token.start[0], tokenize.tok_name[token.type], token.string
        if kind == "NAME":  # a test's name is a sentence
            yield line, "prose" if text.startswith("test_") else "name", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
        elif kind == "COMMENT":
            yield line, "prose", text
        elif kind in ("STRING", "FSTRING_MIDDLE") and not NOT_PROSE.match(text):
            body = re.sub(r"\{[^{}]*\}", blank, text) if text[0] in "fF" else text
            yield line, "prose" if is_first else "string", body.lstrip("bBfFuU").strip("\"'")
        is_first = kind == "NEWLINE" or (is_first and kind in ("NL", "COMMENT", "INDENT", "DEDENT"))


def texts(path: str, source: str) -> Iterator[Text]:
    suffix = Path(path).suffix
    if suffix == ".py":
        yield from (text for text in python_texts(source) if text[1] != "string" or path.startswith(PRODUCT))
    elif suffix in (".md", ".html"):
        yield 1, "prose", source
    else:
        comments = re.finditer("--.*" if suffix == ".sql" else r"(?<!\S)#.*", source)
        yield from ((source.count("\n", 0, found.start()) + 1, "prose", found[0]) for found in comments)
    name = Path(path).parent.name if path.endswith("/__init__.py") else Path(path).stem
    yield 1, "prose" if name.startswith("test_") else "name", re.sub(r"\W", "_", name)


def check(path: str, found: list[Text], allowed: list[str]) -> Iterator[tuple[str, int, str, str]]:
    rules = table("vocabulary.txt")
    any_word = any_of(",".join(words for words, *_ in rules))
    for line, kind, original in found:
        is_name = kind == "name" or (kind == "string" and not re.search(r"\s", original))
        text = (original if is_name else QUOTED.sub(blank, original)).replace("_", " ")
        for phrase in allowed:
            text = any_of(phrase).sub(blank, text)
        for words, where, unless, say in rules if any_word.search(text) else ():
            for match in any_of(words).finditer(text) if where != ("prose" if is_name else "names") else ():
                sentence = SENTENCE_END.split(text[: match.start()])[-1] + SENTENCE_END.split(text[match.start() :])[0]
                if not (unless and any_of(unless).search(sentence)):
                    yield path, line + text.count("\n", 0, match.start()), " ".join(match[0].lower().split()), say


def findings(root: Path, paths: list[str], commits: int) -> Iterator[tuple[str, int, str, str]]:
    def git(*arguments: str) -> list[str]:
        command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]
        return subprocess.check_output(command, text=True).splitlines()  # noqa: S603

    is_repository = (root / ".git").exists()
    if is_repository:
        files = git("ls-files", "-co", "--exclude-standard", "--", *paths)
    else:
        left_out = {path.removeprefix(":!") for path in paths} | {".venv", "node_modules", "site"}
        relative = (path.relative_to(root) for path in root.rglob("*"))
        files = [path.as_posix() for path in relative if not left_out.intersection(path.parts)]
    for path in files:
        if Path(path).suffix in SUFFIXES and (root / path).is_file():
            allowed = [words for glob, words, _ in table("vocabulary-allowed.txt") if fnmatchcase(path, glob)]
            found = texts(path, (root / path).read_text())
            yield from check(path, [text for text in found if text[1] != "string" or "strings" not in allowed], allowed)
    (since,) = re.findall(r"^# since: (\S+)$", (HERE / "vocabulary.txt").read_text(), re.MULTILINE)
    if commits and is_repository:
        for subject in git("log", f"-n{commits}", f"--since={since}", "--format=%h %s"):
            yield from check(f"commit {subject.split()[0]}", [(1, "prose", subject)], [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=HERE.parent, help="the repository")
    parser.add_argument("--paths", nargs="+", default=[], help="files and folders below it, as git takes them")
    parser.add_argument("--counts", nargs="?", const="", metavar="PREFIX", help="only counts, of each word and folder")
    parser.add_argument("--commits", type=int, default=20, help="how many of the newest subjects are checked")
    options = parser.parse_args()
    found = list(findings(options.root, options.paths + [options.counts] * bool(options.counts), options.commits))
    if options.counts is None:
        sys.stdout.writelines(f"{path}:{line}: '{word}': say {say}\n" for path, line, word, say in found)
    else:
        depth = len(Path(options.counts).parts) + 1
        at = [("/".join(Path(path).parts[:depth]), word) for path, _, word, _ in found]
        counts = Counter([*at, *((folder, "all") for folder, _ in at)])
        for word, total in Counter(word for _, word in counts.elements()).most_common():
            print(f"{word} {total}:", ", ".join(f"{one[0]} {n}" for one, n in counts.most_common() if one[1] == word))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
