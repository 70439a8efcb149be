"""Paths: the project, and the folder of captures and vectors that may be beside it."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
EXAMPLES = PROJECT / "examples"
SHARED = PROJECT.parent / "shared"
