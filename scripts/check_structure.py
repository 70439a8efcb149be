"""Check the structure of the four source roots: `python scripts/check_structure.py`, a part of `make lint`.

It fails for a circle of modules or of folders, for a public class or function whose name is defined in two
modules, and for a module that no layer of pyproject.toml names.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = ("translator", "hooks", "shim", "proxy")

DICTATED_NAMES = {"upgrade"}
"""Names that a library looks up in each module: alembic calls `upgrade` in every migration."""

Graph = Mapping[str, set[str]]


def main() -> int:
    """Print every finding. Returns 1 if there is one, else 0."""
    modules = {name: ast.parse(path.read_text()) for name, path in source_files()}
    graph = {name: set(imports_of(name, tree, modules.keys())) for name, tree in modules.items()}
    folders = folder_graph(graph)
    findings = [
        *(f"circle of modules: {' -> '.join(circle)}" for circle in circles(graph)),
        *(f"circle of folders: {' -> '.join(circle)}" for circle in circles(folders)),
        *names_defined_twice(modules),
        *modules_without_layer(modules),
    ]
    for finding in findings:
        print(finding)
    lines = sum(len(path.read_text().splitlines()) for _, path in source_files())
    print(f"structure: {len(modules)} modules, {lines} lines, {len(findings)} findings")
    return 1 if findings else 0


def source_files() -> Iterator[tuple[str, Path]]:
    """Each module of the product by its full name, with its file."""
    for root in SOURCE_ROOTS:
        for path in sorted((ROOT / root / "hookgate").rglob("*.py")):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(module: str, tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    """The modules of the product that a module imports, at its top or within a function."""
    known = set(known)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("hookgate"):
            continue
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            imported = full if full in known else node.module or ""
            if imported in known and imported != module:
                yield imported


def folder_graph(graph: Graph) -> Graph:
    """The imports between the parts of the product: the folders and single modules below each source root."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in graph.items():
        found[part_of(module)] |= {part_of(each) for each in imported} - {part_of(module)}
    return found


def part_of(module: str) -> str:
    """The first three components of a module's name, or all that it has."""
    return ".".join(module.split(".")[:3])


def circles(graph: Graph) -> Iterator[list[str]]:
    """One circle for each node from which a path of imports leads back to it, each set of nodes once."""
    seen: set[frozenset[str]] = set()
    for start in sorted(graph):
        path = path_back(graph, start)
        if path and (nodes := frozenset(path)) not in seen:
            seen.add(nodes)
            yield [*path, start]


def path_back(graph: Graph, start: str) -> list[str]:
    """The shortest path of imports from a node to itself, without its end; empty if there is none."""
    paths, waiting = {start: [start]}, [start]
    while waiting:
        node = waiting.pop(0)
        for imported in sorted(graph.get(node, ())):
            if imported == start:
                return paths[node]
            if imported not in paths:
                paths[imported] = [*paths[node], imported]
                waiting.append(imported)
    return []


def names_defined_twice(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """A finding for each public class or function whose name is defined at the top of two modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                places[node.name].append(module)
    for name, found in sorted(places.items()):
        if len(found) > 1 and not name.startswith("_") and name not in DICTATED_NAMES:
            yield f"{name} is defined in {', '.join(found)}"


def modules_without_layer(modules: Iterable[str]) -> Iterator[str]:
    """A finding for each module whose part of the product no layer of pyproject.toml names."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = {
        f"{container}.{name.strip()}"
        for contract in contracts
        for container in contract.get("containers", ())
        for layer in contract["layers"]
        for name in layer.split("|")
    }
    for module in modules:
        if module.count(".") > 1 and part_of(module) not in layered:
            yield f"{module} is in no layer of pyproject.toml"


if __name__ == "__main__":
    sys.exit(main())
