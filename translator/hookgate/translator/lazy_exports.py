"""Exports of packages that are imported when they are first used.

Before a module is imported, the `__init__` of its package runs. If that imported all that it exports, each
command would load the engine and the translator, although most need neither.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(package: str, exports: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package, which imports what is exported on first use.

    `exports` has the exported names by the modules, relative to the package, that define them. Type checkers
    need the same imports under `TYPE_CHECKING`.
    """
    modules = {name: f"{package}.{module}" for module, names in exports.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get
