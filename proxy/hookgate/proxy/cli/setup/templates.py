"""The set-ups that come with hookgate: folders of its examples, each described by its settings.json."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_CONFIGURATION = "hookgate.toml"

Shelf = Literal["uses", "policies"]
"""Where set-ups are: by use (`--for`), or policy templates (`--from`)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A set-up that can be written into a folder."""

    name: str
    summary: str
    """One sentence: the first line of its settings.json."""
    files: tuple[Path, ...]
    """What is copied: hookgate.toml, settings.json, try.sh and what they need."""

    def write(self, folder: Path) -> list[Path]:
        """Copy the files into a new or empty folder, and return the copies.

        Raises ValueError if the folder contains anything, and OSError if it cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty, and nothing is overwritten; name a new or empty folder")
        written = []
        for source in self.files:
            with (folder / source.name).open("xb") as copy:
                copy.write(source.read_bytes())
            written.append(folder / source.name)
        return written


def examples_folder() -> Path:
    """Return the folder of the examples: beside the commands if installed, else in the source tree."""
    installed = Path(__file__).parents[1] / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[5] / "examples"


@cache
def setups(shelf: Shelf) -> dict[str, Setup]:
    """Return the set-ups by name."""
    folder = examples_folder() / "setups"
    found = sorted(path for path in (folder / shelf).iterdir() if path.is_dir())
    return {path.name: _setup(path, folder / _CONFIGURATION) for path in found}


def _setup(folder: Path, usual_configuration: Path) -> Setup:
    files = {path.name: path for path in (usual_configuration, *folder.iterdir()) if path.is_file()}
    first_line = files["settings.json"].read_text(encoding="utf-8").partition("\n")[0]
    return Setup(folder.name, first_line.removeprefix("// "), tuple(files[name] for name in sorted(files)))
