"""Packages whose exports are imported when they are first used."""

import ast
import importlib
import inspect

import pytest

PACKAGES = ("hookgate.translator", "hookgate.hooks", "hookgate.hooks.settings")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_everything_that_it_exports(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(inspect.getsource(module))
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    exported = [alias.name for alias in aliases if alias.asname == alias.name]
    assert len(exported) > 20
    assert {name for name in exported if not hasattr(module, name)} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_a_package_does_not_export_is_reported(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'unknown'"):
        _ = module.unknown
