"""Where a command's hooks come from: its flags, its environment, and the folders these name."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.settings import Place, project_places


@dataclass(frozen=True, slots=True)
class Sources:
    """Settings files by how they were named. A project brings its own, the user's and the system's."""

    policy: tuple[Path, ...] = ()
    hooks: tuple[Path, ...] = ()
    project: Path | None = None
    state: Path = Path()

    def places(self) -> list[Place]:
        """The files to read, found anew on each call: extensions come and go."""
        named = [Place(path, "policy") for path in self.policy] + [Place(path) for path in self.hooks]
        return named + (project_places(self.project, Path.home()) if self.project else [])


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that every command with hooks takes."""
    parser.add_argument(
        "--policy",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="settings files whose hooks run first and cannot be switched off elsewhere (HOOKGATE_POLICY)",
    )
    parser.add_argument(
        "--hooks",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="settings files with hooks, highest precedence first (HOOKGATE_HOOKS, separated by ':')",
    )
    parser.add_argument(
        "--project",
        type=Path,
        metavar="FOLDER",
        help="read the settings that Gemini CLI reads there: the project's, yours, the system's, extensions'",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="what hookgate remembers, such as trusted hooks (HOOKGATE_STATE, ~/.local/state/hookgate)",
    )


def sources_of(arguments: argparse.Namespace, default_project: Path | None = None) -> Sources:
    """The sources that a command line names; its project is `default_project` when it names none at all."""
    policy = tuple(arguments.policy or _files_in("HOOKGATE_POLICY"))
    hooks = tuple(arguments.hooks or _files_in("HOOKGATE_HOOKS"))
    project = arguments.project or (None if policy or hooks else default_project)
    if project is not None and not project.is_dir():
        raise NotADirectoryError(f"--project {project}: there is no such folder")
    return Sources(policy, hooks, project and project.resolve(), arguments.state or _state())


def _files_in(variable: str) -> list[Path]:
    return [Path(name) for name in os.environ.get(variable, "").split(":") if name]


def _state() -> Path:
    named = os.environ.get("HOOKGATE_STATE")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(named) if named else Path(base) / "hookgate"
