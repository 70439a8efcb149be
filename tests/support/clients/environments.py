"""Environments of agents whose dependencies are not ours: google-adk, google-antigravity, frameworks.

One process of each imports its packages, and runs the scripts of all tests of a worker
(support/environment_runner.py). What a start itself does is seen where tests/shim/test_examples.py runs an
example as users do.
"""

from dataclasses import dataclass
from pathlib import Path

from support.clients.script_runner import ScriptRunner
from support.clients.versions import python_version
from support.places import PROJECT
from support.programs.commands import Ran, missing

_RUNNER = Path(__file__).with_name("environment_runner.py")


@dataclass(frozen=True)
class Environment:
    """A virtual environment that a target of the Makefile makes."""

    package: str
    target: str
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables of its process."""

    def python(self) -> str:
        """The interpreter that has the package; skips the test, or fails it in CI, if it is missing."""
        folder = PROJECT / f".venv-{self.target}"
        if not (folder / ".installed").exists():
            missing(f"needs {self.package}: run `make {self.target}`")
        return str(folder / "bin" / "python")

    def version(self, package: str) -> str:
        """The name and the version of a package in it; empty if it is missing."""
        folders = (PROJECT / f".venv-{self.target}").glob("lib/python*/site-packages")
        return python_version(package, [*map(str, folders)])

    async def run(self, script: Path, *words: str) -> Ran:
        """Run the `main` of a script with these words."""
        sources = ":".join(str(PROJECT / part) for part in ("shim", "hooks", "translator"))
        keys = (("GEMINI_API_KEY", "any"), ("GOOGLE_API_KEY", "any"))
        code = _RUNNER.read_text()  # it imports nothing of this folder
        runner = ScriptRunner(
            (self.python(), "-c", code),
            Path("/"),  # it reads settings from its folder
            (*keys, ("PYTHONPATH", sources), *self.variables),
        )
        return await runner.run(script, *words)


ADK = Environment("google-adk", "adk")
ANTIGRAVITY = Environment("google-antigravity", "antigravity")
OLDER_SDK = Environment("google-genai 2", "older-sdk")
FRAMEWORKS = Environment(
    "LangChain and LiteLLM",
    "frameworks",
    (("LITELLM_LOCAL_MODEL_COST_MAP", "True"),),  # or it downloads prices when it is imported
)
