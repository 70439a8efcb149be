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

_SETTINGS = ("settings.json", "rego.json")

_LANGUAGES = {".sh": "bash", ".py": "python", ".js": "javascript"}

_SHOWN = ("deny-private-keys", "redact-email", "dry-run")
"""The hooks that the page shows, one of each language."""

_INTRODUCTION = """\
# Gallery

<!-- Made by: python docs/generators/gallery.py > docs/gallery.md -->

```
hookgate hooks test BeforeModel --hooks examples/gallery/settings.json    # shows what each hook does
hookgate serve --hooks examples/gallery/settings.json
```

{count} small hooks to copy and change, each a file of at most 50 lines in
[examples/gallery](../examples/gallery), with its entry in
[settings.json](../examples/gallery/settings.json). Copy what you need into a folder of your own. Most hooks
in bash need `jq`. Those in Rego are in [rego.json](../examples/gallery/rego.json), because they need the
extra `rego`.

They are examples: short, and not complete. Where a [policy](policies.md) has the same purpose, prefer it:
policies are faster, and cover more cases. [Kinds of hooks](hook-kinds.md) describes when a program should
be persistent, and the [Reference](reference.md) what the hooks of each event read and write.
"""

_HEADER = ["hook", "file", "what it does", "matcher"]


def gallery() -> str:
    """Return the page. Raises ValueError if a file does not begin with a description."""
    files: list[Any] = [parse_jsonc((_FOLDER / name).read_text(encoding="utf-8")) for name in _SETTINGS]
    hooks = [
        (event, group.get("matcher", ""), hook)
        for settings in files
        for event, groups in settings["hooks"].items()
        for group in groups
        for hook in group["hooks"]
    ]
    parts = [_INTRODUCTION.format(count=len(hooks))]
    for event in dict.fromkeys(event for event, _, _ in hooks):
        rows = [_row(hook, matcher) for found, matcher, hook in hooks if found == event]
        parts += [
            f"## {event}\n",
            *(f"| {' | '.join(cells)} |" for cells in [_HEADER, ["---"] * 4, *rows]),
            "",
        ]
    parts.append("## Three of them in full\n")
    parts += ["\n\n".join(_entry(hook)) + "\n" for _, _, hook in hooks if hook["name"] in _SHOWN]
    return "\n".join(parts)


def _row(hook: dict[str, Any], matcher: str) -> list[str]:
    file = _file(hook)
    escaped = matcher.replace("|", "\\|")
    link = f"[{file.name}](../examples/gallery/{file.name})"
    return [hook["name"], link, _description(file), f"`{escaped}`" if matcher else ""]


def _entry(hook: dict[str, Any]) -> Iterator[str]:
    file = _file(hook)
    yield f"`{json.dumps(hook)}`:"
    yield f"```{_LANGUAGES[file.suffix]}\n{file.read_text(encoding='utf-8')}```"


def _file(hook: dict[str, Any]) -> Path:
    [file] = [path for path in _FOLDER.iterdir() if path.stem == hook["name"].replace("-", "_")]
    return file


def _description(file: Path) -> str:
    """Return the first comment of a script, or the first line of its docstring."""
    text = file.read_text(encoding="utf-8")
    found = re.match(r'(?:#!.*\n)?(?:"""|# |// )(.+?\.)(?:""")?\n', text)
    if found is None:
        raise ValueError(f"{file}: begin with a comment that says what the hook does")
    return found[1]


if __name__ == "__main__":
    print(gallery(), end="")
