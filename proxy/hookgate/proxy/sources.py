"""Where hooks come from: the configured files, and the folders whose settings are read as Gemini CLI does."""

import os
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.settings import Place, project_places
from hookgate.proxy.config import HookSources


@dataclass(frozen=True, slots=True)
class Sources:
    """Settings files by how they were named. A project brings its own, the user's and the system's."""

    policy: tuple[Path, ...] = ()
    hooks: tuple[Path, ...] = ()
    project: Path | None = None
    state: Path = Path()
    trust_project: bool = False
    """Whether the project counts as its user's own, with its switches and all of its hooks."""

    def places(self) -> list[Place]:
        """The files to read, found anew on each call: extensions come and go."""
        named = [Place(path, "policy") for path in self.policy] + [Place(path) for path in self.hooks]
        if self.project is None:
            return named
        return named + project_places(self.project, Path.home(), trusted=self.trust_project)


def sources_of(configured: HookSources, default_project: Path | None = None) -> Sources:
    """The sources that are configured; the project is `default_project` when there are none at all."""
    policy, files = configured.policy, configured.files
    project = configured.project or (None if policy or files else default_project)
    if project is not None and not project.is_dir():
        raise NotADirectoryError(f"hooks.project: {project}: there is no such folder; check the path")
    return Sources(
        policy, files, project and project.resolve(), state_of(configured), configured.trust_project
    )


def state_of(configured: HookSources) -> Path:
    """The folder of what hookgate remembers, which may be missing. Raises NotADirectoryError."""
    state = configured.state or _state()
    if os.path.exists(state) and not os.path.isdir(state):
        raise NotADirectoryError(f"hooks.state: {state}: is no folder; name one with --state")
    return state


def _state() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hookgate"
