"""Typical mistakes: each one causes the message in mistakes.md."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from hookgate.proxy.cli.main import run_command

PAGE = Path(__file__).with_name("mistakes.md")
FOLDER = "/srv/policies"
"""What the page calls the folder of its files."""

_SECTION = re.compile(
    r"^## (?P<title>.+)\n\n(?:In `(?P<file>[^`]+)`:\n\n(?P<text>(?:    .*\n)+)\n)?"
    r"    \$ hookgate (?P<command>.+)\n(?P<shown>(?:    .*\n)+)",
    re.MULTILINE,
)


_SLOW = re.compile(r"^note .* took \d+ ms;.*\n", re.MULTILINE)
"""What the doctor says of any hook while this machine is busy."""


@dataclass(frozen=True)
class Mistake:
    """One section of the page."""

    title: str
    file: str | None
    text: str
    command: str
    shown: str


def unindented(text: str | None) -> str:
    return "".join(line.removeprefix("    ") for line in (text or "").splitlines(keepends=True))


MISTAKES = [
    Mistake(each["title"], each["file"], unindented(each["text"]), each["command"], unindented(each["shown"]))
    for each in _SECTION.finditer(PAGE.read_text())
]


def test_every_section_of_the_page_is_a_mistake() -> None:
    titles = re.findall(r"^## .+", PAGE.read_text(), re.MULTILINE)
    assert len(MISTAKES) == len(titles) >= 60


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.title)
def test_a_mistake_is_reported_as_the_page_says(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("HOOKGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOOKGATE_CONFIG", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    if mistake.file:
        (tmp_path / mistake.file).write_text(mistake.text)
    try:
        code = run_command(shlex.split(mistake.command))
    except SystemExit as ended:  # argparse ends the program
        code = int(str(ended.code))
    captured = capsys.readouterr()
    shown = _SLOW.sub("", captured.out + captured.err)
    assert (code == 0) == ("0 problems found" in mistake.shown or mistake.shown.startswith("ok: "))
    assert _of_any_folder(shown, tmp_path) == _of_any_folder(mistake.shown, tmp_path)


def _of_any_folder(shown: str, folder: Path) -> str:
    """The text with the page's names of folder and file, without the revision that depends on them."""
    text = shown.replace(str(folder), FOLDER).replace(f"ok: {os.devnull}", "ok: no file")
    return re.sub(r"revision [0-9a-f]{12}", "revision", text)
