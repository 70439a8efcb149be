"""Prepares the pages of the documentation site in build/pages; `make site` then builds build/site from them.

The pages in docs/ are written for readers of the repository. On the site, README.md is the home page, and
links to files that are not pages, such as tests, become their names. llms.txt lists all pages for language
models.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
ASSETS = ("assets", "figures", "images")

_LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<target>[^()\s]+)\)")


def main(folder: Path) -> None:
    """Write all pages and what they show to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = {"index.md": _from_docs((PROJECT / "README.md").read_text(encoding="utf-8"))}
    pages |= {
        str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))
    }
    pages = {name: _with_links_on_site(name, text) for name, text in pages.items()}
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ASSETS:
        shutil.copytree(DOCS / name, folder / name)
    names = list(_names(yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    (folder / "llms.txt").write_text(_llms(names, pages), encoding="utf-8")
    (folder / "llms-full.txt").write_text("\n\n".join(pages[name] for name in names), encoding="utf-8")


def _from_docs(readme: str) -> str:
    """Return README.md with links as from within docs/."""

    def moved(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        path = PurePosixPath(target)
        return f"[{link['text']}]({path.relative_to('docs') if path.parts[0] == 'docs' else f'../{target}'})"

    return _LINK.sub(moved, readme)


def _with_links_on_site(page: str, text: str) -> str:
    """Return a page with the names of files that are not on the site in place of links to them."""
    above = "../" * (1 + page.count("/"))

    def on_site(link: re.Match[str]) -> str:
        if not link["target"].startswith(above):
            return link[0]
        name = link["target"].removeprefix(above)
        return link["text"] if "`" in link["text"] else f"{link['text']} (`{name}`)"

    return _LINK.sub(on_site, text)


def _names(nav: Any) -> Iterator[str]:
    """Yield the pages of the navigation in order."""
    if isinstance(nav, str):
        yield nav
        return
    for item in nav.values() if isinstance(nav, dict) else nav:
        yield from _names(item)


def _llms(names: list[str], pages: dict[str, str]) -> str:
    titles = {name: pages[name].partition("\n")[0].removeprefix("# ") for name in names}
    listed = [f"- [{title}]({name.removesuffix('.md')}.html)" for name, title in titles.items()]
    head = ["# hookgate", "", "> A policy gateway for Gemini agents", "", "## Pages", ""]
    return "\n".join([*head, *listed, ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
