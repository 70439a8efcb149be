"""Files for contributors: issue forms that GitHub accepts, and pre-commit checks that run."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import DOCS, PROJECT
from support.programs.commands import missing

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

TEMPLATES = PROJECT / ".github" / "ISSUE_TEMPLATE"
PAGES = ("CONTRIBUTING.md", "SECURITY.md")

_SOURCE_PATH = re.compile(r"(?<![\w/.])(?:proxy|hooks|shim|translator)/[\w/]+(?:\.py|/)(?![\w.])")


@pytest.mark.parametrize("schema", ["issue-forms", "issue-config"])
def test_the_forms_of_issues_have_their_schema(schema: str) -> None:
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if program is None:
        missing("needs check-jsonschema: run `make install`")
    files = [
        path for path in TEMPLATES.glob("*.yml") if (path.name == "config.yml") == (schema == "issue-config")
    ]
    assert files
    words = [program, "--builtin-schema", f"vendor.github-{schema}", *files]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_the_checks_before_a_commit_are_those_of_make_lint_and_need_no_network() -> None:
    config = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    lint = (PROJECT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        words = shlex.split(hook["entry"])
        assert " ".join(word for word in words if not word.startswith("--")) in lint


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_to_files_and_headings(page: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", (PROJECT / page).read_text())
    local = [link for link in links if "://" not in link]
    assert local
    for link in local:
        name, _, anchor = link.partition("#")
        headings = re.findall(r"^#+ (.*)$", (PROJECT / name).read_text(), re.M)
        anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, link


def test_the_paths_in_the_guide_exist() -> None:
    pages = [(PROJECT / page).read_text() for page in (*PAGES, "docs/architecture.md", "docs/decisions.md")]
    paths = {path for page in pages for path in _SOURCE_PATH.findall(page)}
    assert len(paths) > 80
    missing_paths = {path for path in paths if not any(place.exists() for place in _places(path))}
    assert missing_paths == set()


def test_the_methods_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`([A-Z]\w+)\.(_?[a-z]\w+)[(`]", (DOCS / "architecture.md").read_text()))
    assert len(named) > 60
    members: dict[str, set[str]] = {}
    for root in ("proxy", "hooks", "shim", "translator"):
        for path in (PROJECT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    members.setdefault(node.name, set()).update(_members(node))
    assert {(owner, name) for owner, name in named if name not in members.get(owner, ())} == set()


def _members(owner: ast.ClassDef) -> Iterator[str]:
    """Yield the methods and attributes of a class."""
    for node in ast.walk(owner):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Attribute(attr=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _places(path: str) -> tuple[Path, Path]:
    """Return where the file may be: its path may omit the folder of the namespace."""
    return PROJECT / path, PROJECT / path.partition("/")[0] / "hookgate" / path


def test_lines_of_prose_have_at_most_120_characters() -> None:
    """Tables, code and addresses may be longer, and so may pages that a program has made."""
    long_lines = []
    for page in [*PROJECT.glob("*.md"), *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        if "<!-- Made by" in text:
            continue
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in prose.splitlines() if " " in line and not line.startswith(("|", "    "))]
        long_lines += [f"{page.name}: {line}" for line in lines if len(line) > 120]
    assert long_lines == []
