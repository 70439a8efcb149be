"""Versions of installed clients, as their package managers noted them; empty where one is missing."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution
from pathlib import Path


def python_version(package: str, paths: Sequence[str] = sys.path) -> str:
    """The name and the version of a package for Python that is installed at one of the paths."""
    found = Distribution.discover(name=package, path=[*paths])
    return next((f"{package} {each.version}" for each in found), "")


def node_version(package: str, folder: Path) -> str:
    """The name and the version of a package for Node that is installed in a folder."""
    manifest = folder / "node_modules" / package / "package.json"
    return f"{package} {json.loads(manifest.read_text())['version']}" if manifest.exists() else ""


def jdk_version() -> str:
    """The version of the JDK that runs programs."""
    if not shutil.which("javac"):
        return ""
    ran = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'"(.+)"', ran.stderr)
    return f"JDK {found[1]}" if found else ""
