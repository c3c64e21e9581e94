"""What mkdocs adds to the pages: references made from the code, the list of decisions, links out of docs/."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.references import command_reference, http_reference, python_reference, settings_reference
from memforest_core.service.http.http_app import openapi

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no one writes."""
    pages = {
        "reference/http.md": http_reference(openapi()),
        "reference/python.md": python_reference(),
        "reference/commands.md": command_reference(),
        "reference/settings.md": settings_reference(),
        "adr/index.md": decisions(),
    }
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name what a link out of docs/ leads to: the site has no such page. It has to be there."""
    folder = PurePosixPath(page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (ROOT / "docs" / folder / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {link[2]}, which is not there.")
        path = str(target.relative_to(ROOT))
        return f"`{path}`" if link[1] in path else f"{link[1]} (`{path}`)"

    return _LINK.sub(named, markdown)


def on_env(env: object, config: MkDocsConfig, files: Files) -> None:
    """Write ``llms.txt``, the pages for language models (https://llmstxt.org): titles, links, first sentences."""
    lines = [f"# {config.site_name}\n\n> {config.site_description}"]
    for section in config.nav or ():
        for title, paths in section.items():
            found = [file.page for path in paths if (file := files.get_file_from_path(path)) and file.page]
            pages = [f"- [{page.title}]({page.file.dest_uri}){_described(page.markdown or '')}" for page in found]
            lines.append(f"## {title}\n\n" + "\n".join(pages))
    target = Path(config.site_dir) / "llms.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def _described(markdown: str) -> str:
    """The first sentence after a colon; nothing where a page begins with a table or a list."""
    paragraph = next((each for each in markdown.split("\n\n")[1:] if each[:1].isalpha() or each[:1] == "`"), "")
    sentence = re.split(r"(?<=[.?]) (?=[A-Z`])", _LINK.sub(r"\1", " ".join(paragraph.split())))[0].rstrip(":")
    return f": {sentence}" if sentence else ""


def decisions() -> str:
    """The list of the decision records."""
    files = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in files]
    rows = [f"* [{title}]({path.name})" for title, path in zip(titles, files, strict=True)]
    return (
        "# Decisions\n\nWhy things are as they are: context, decision, consequences, what enforces it.\n\n"
        + "\n".join(rows)
    )
