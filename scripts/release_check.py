"""Builds the packages of a release into dist/, twice, and checks them: `make release-check`.

The two builds must be equal, byte for byte. The wheel is installed into an environment of its own, with the
exact versions of requirements.lock, and into another one with its demo, which must pass.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DIST = PROJECT / "dist"


def run(*words: str | Path, **variables: str) -> None:
    """Run a command. Raises CalledProcessError."""
    command = [str(word) for word in words]
    subprocess.run(command, check=True, cwd=PROJECT, env={**os.environ, **variables})  # noqa: S603  # words of this script


def python_in(folder: Path, *packages: str | Path) -> Path:
    """Create a virtual environment with some packages, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def built(python: Path, folder: Path) -> dict[str, str]:
    """Build sdist and wheel, and return their hashes by name."""
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607  # the git of whoever releases
        check=True,
        cwd=PROJECT,
        capture_output=True,
        text=True,
    ).stdout.strip()
    run(python, "-m", "build", "--no-isolation", "--outdir", folder, SOURCE_DATE_EPOCH=epoch)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def main() -> None:
    """Build and check. Exits with 1 if a check fails."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builder = python_in(folder / "build", "-r", PROJECT / "requirements-build.lock")  # with hashes
        run(
            builder,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "build>=1.2,<2",
            "twine>=6,<7",
        )
        first, second = built(builder, DIST), built(builder, folder / "again")
        if first != second:
            sys.exit(f"two builds of one commit differ: {first} and {second}")
        run(builder, "-m", "twine", "check", "--strict", *DIST.iterdir())
        wheel = next(DIST.glob("*.whl"))
        installed = python_in(folder / "fresh", "-r", PROJECT / "requirements.lock")
        run(installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", wheel)
        run(installed, "-m", "pip", "check")
        demo = python_in(folder / "demo", f"{wheel}[demo]")
        run(demo.parent / "hookgate", "demo")
    for file, digest in first.items():
        print(f"{digest}  {file}")


if __name__ == "__main__":
    main()
