"""How well the template `prompt-injection` finds instructions: `python -m benchmarks.injections`."""

import sysconfig
from pathlib import Path

from tests.support.texts.injections import labelled_table, marker

_SUFFIXES = {".md", ".rst", ".txt", ".py", ".json", ".html", ".yaml", ".yml", ".toml"}


def main() -> None:
    print(labelled_table())
    marks = marker()
    files = [
        path
        for path in Path(sysconfig.get_paths()["purelib"]).rglob("*")
        if path.suffix in _SUFFIXES and path.is_file()
    ]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    found = [path for path, text in texts.items() if marks(text)]
    size = sum(map(len, texts.values())) / 1e6
    print(f"\n{len(found)} of {len(files)} files of installed packages ({size:.0f} MB) are marked:")
    for path in found:
        print(f"  {path}")


if __name__ == "__main__":
    main()
