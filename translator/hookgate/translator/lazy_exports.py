"""Exports of packages that are imported when they are first used.

Before a module is imported, the `__init__` of its package runs. If that imported all that it exports, each
command would load the engine and the translator, although most need neither.
"""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import Any


def lazy_exports(package: str) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package, which imports what is exported on first use.

    The package exports what it imports from its modules under `TYPE_CHECKING`, as it does for type checkers.
    """

    def get(name: str) -> Any:
        module = _exports(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return get


@cache
def _exports(package: str) -> dict[str, str]:
    """Return the modules that define what a package exports, by name."""
    tree = ast.parse(get_data(package, "__init__.py") or b"")
    statements = [each for block in tree.body if isinstance(block, ast.If) for each in block.body]
    return {
        each.name: statement.module
        for statement in statements
        if isinstance(statement, ast.ImportFrom) and statement.module
        for each in statement.names
    }
