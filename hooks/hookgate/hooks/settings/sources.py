"""The layers of settings, and the files of each: where settings come from, whatever they say."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Layer = Literal["policy", "runtime", "explicit", "project", "user", "system", "extensions"]
"""The origin of hooks, highest precedence first. `explicit` are files named on the command line."""

LAYERS: tuple[Layer, ...] = ("policy", "runtime", "explicit", "project", "user", "system", "extensions")

GEMINI_LAYERS = frozenset[Layer]({"project", "user", "system", "extensions"})
"""The layers of Gemini CLI's own settings files. An operator names the files of the other layers."""


@dataclass(frozen=True, slots=True)
class NumberedText:
    """Settings that are not in a file, such as those of a database: one of several numbered versions."""

    number: int
    text: str


_SYSTEM = ("gemini-cli", "terminai")
_FOLDERS = (".gemini", ".terminai")


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """A settings file and its layer.

    `root` is the project folder in which its hooks run, by default the project that contains the file. It is
    an error if a `required` file is missing. The hooks of a `trusted` project run like the user's own; those
    of other projects must be trusted individually. With a `revision`, no file is read, and `path` only names
    the settings.
    """

    path: Path
    layer: Layer = "explicit"
    root: Path | None = None
    required: bool = True
    trusted: bool = False
    revision: NumberedText | None = None

    @property
    def needs_trust(self) -> bool:
        """Whether its hooks come from a project, and therefore run only after a user has trusted them."""
        return self.layer == "project" and not self.trusted

    @property
    def binds_all(self) -> bool:
        """Whether its general settings affect the hooks of all files, rather than its own hooks only."""
        return self.layer != "extensions" and not self.needs_trust


def project_sources(
    project: Path, home: Path, system: Path = Path("/etc"), *, trusted: bool = False
) -> list[SettingsSource]:
    """Return the files that Gemini CLI and TerminaI read for a project, highest precedence first.

    All of them are optional. If the project is `trusted`, its hooks run like the user's own. As for Gemini
    CLI, the environment variable `GEMINI_CLI_SYSTEM_SETTINGS_PATH` overrides the path of the system's file.
    """
    system_path = os.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    system_files = [Path(system_path)] if system_path else [system / n / "settings.json" for n in _SYSTEM]
    user_files = [home / folder / "settings.json" for folder in _FOLDERS]
    project_files = [project / folder / "settings.json" for folder in _FOLDERS]
    if project.resolve() == home.resolve():
        project_files = []  # the files in the home folder are the user's
    layers: list[tuple[Layer, list[Path]]] = [
        ("project", project_files),
        ("user", user_files),
        ("system", system_files),
        ("extensions", sorted((home / ".gemini" / "extensions").glob("*/hooks/hooks.json"))),
    ]
    return [
        SettingsSource(path, layer, project, required=False, trusted=trusted)
        for layer, paths in layers
        for path in paths
    ]


def project_of(path: Path) -> Path:
    """Return the folder of the file or, for a file in a `.gemini` folder, the project that contains it."""
    folder = path.resolve().parent
    return folder.parent if folder.name in _FOLDERS else folder
