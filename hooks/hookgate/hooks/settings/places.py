"""Where settings are: the layers of Gemini CLI and of TerminaI, whose documents share the hook contract."""

import os
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.settings.plan import Layer

_SYSTEM = ("gemini-cli", "terminai")
_FOLDERS = (".gemini", ".terminai")


@dataclass(frozen=True, slots=True)
class Place:
    """A settings file and the layer it belongs to.

    `root` is the project its hooks run in, by default the one around the file. A file that is `required`
    has to be there. A project that is `trusted` counts as its user's own; the hooks of another one wait to
    be trusted one by one.
    """

    path: Path
    layer: Layer = "explicit"
    root: Path | None = None
    required: bool = True
    trusted: bool = False

    @property
    def needs_trust(self) -> bool:
        """Whether its hooks have come with a checkout, and run once somebody has looked at them."""
        return self.layer == "project" and not self.trusted

    @property
    def binds_all(self) -> bool:
        """Whether what it says of all hooks counts for those of other files, and not for its own alone."""
        return self.layer != "extensions" and not self.needs_trust


def project_places(
    project: Path, home: Path, system: Path = Path("/etc"), *, trusted: bool = False
) -> list[Place]:
    """What Gemini CLI and TerminaI read in a project, highest precedence first; any of it may be missing.

    `trusted`: the project counts as its user's own. `GEMINI_CLI_SYSTEM_SETTINGS_PATH` names the system's
    file, as for Gemini CLI.
    """
    named = os.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    systems = [Path(named)] if named else [system / name / "settings.json" for name in _SYSTEM]
    users = [home / folder / "settings.json" for folder in _FOLDERS]
    own = [project / folder / "settings.json" for folder in _FOLDERS]
    layers: list[tuple[Layer, list[Path]]] = [
        ("project", [] if project.resolve() == home.resolve() else own),  # a project at home is the user's
        ("user", users),
        ("system", systems),
        ("extensions", sorted((home / ".gemini" / "extensions").glob("*/hooks/hooks.json"))),
    ]
    return [
        Place(path, layer, project, required=False, trusted=trusted)
        for layer, paths in layers
        for path in paths
    ]


def project_of(path: Path) -> Path:
    """Where a file's hooks run: the folder of the file, or the project around its `.gemini` folder."""
    folder = path.resolve().parent
    return folder.parent if folder.name in _FOLDERS else folder
