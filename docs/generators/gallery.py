"""Generate docs/gallery.md from the files of examples/gallery.

python docs/generators/gallery.py > docs/gallery.md
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookgate.hooks.settings.files import parse_jsonc

_FOLDER = Path(__file__).parents[2] / "examples" / "gallery"

_LANGUAGES = {".sh": "bash", ".py": "python", ".js": "javascript"}

_INTRODUCTION = """\
# Gallery

<!-- Made by: python docs/generators/gallery.py > docs/gallery.md -->

{count} small hooks to copy and change. Each is a file of at most 50 lines in
[examples/gallery](../examples/gallery), and each is run by hookgate's own tests. Most hooks in bash need
`jq`. To use some of them, copy their files and their entries in
[settings.json](../examples/gallery/settings.json) into a folder of your own, and start the gateway with
`hookgate serve --hooks FOLDER/settings.json`. The command
`hookgate hooks test EVENT --hooks FOLDER/settings.json` shows what they do.

They are examples: short, and not complete. Where a [policy](policies.md) has the same purpose, prefer it:
policies are faster, and cover more cases. [Kinds of hooks](hook-kinds.md) describes when a program should
be persistent, and the [Reference](reference.md) what the hooks of each event read and write.
"""


def gallery() -> str:
    """Return the page. Raises ValueError if a file does not begin with a description."""
    settings: Any = parse_jsonc((_FOLDER / "settings.json").read_text(encoding="utf-8"))
    sections: list[str] = []
    for event, groups in settings["hooks"].items():
        sections.append(f"## {event}")
        for group in groups:
            sections += ["\n\n".join(_entry(hook, group.get("matcher"))) for hook in group["hooks"]]
    count = sum(section.startswith("### ") for section in sections)
    return "\n\n".join([_INTRODUCTION.format(count=count).rstrip(), *sections]) + "\n"


def _entry(hook: dict[str, Any], matcher: str | None) -> Iterator[str]:
    [file] = [path for path in _FOLDER.iterdir() if path.stem == hook["name"].replace("-", "_")]
    text = file.read_text(encoding="utf-8")
    yield f"### {hook['name']}"
    yield _description(text, file)
    yield f"[{file.name}](../examples/gallery/{file.name}), as `{json.dumps(hook)}`" + (
        f" in a group with the matcher `{matcher}`:" if matcher else ":"
    )
    yield f"```{_LANGUAGES[file.suffix]}\n{text}```"


def _description(text: str, file: Path) -> str:
    """Return the first comment of a script, or the first line of its docstring."""
    found = re.match(r'(?:#!.*\n)?(?:"""|# |// )(.+?\.)(?:""")?\n', text)
    if found is None:
        raise ValueError(f"{file}: begin with a comment that says what the hook does")
    return found[1]


if __name__ == "__main__":
    print(gallery(), end="")
