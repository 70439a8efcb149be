"""What the condition `runs` costs: crafted arguments take time in proportion to their length, and no more.

A search with a pattern holds the interpreter's lock, so one that takes long stops the whole gateway.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator

import pytest
from support.costs import grows_in_proportion

from hookgate.hooks.policies import shell
from hookgate.hooks.policies.conditions import Runs
from hookgate.hooks.policies.shell.programs import PROGRAMS
from hookgate.hooks.policies.shell.usage import ProgramUsage, Subcommands

UNITS = [" ", "\n", "a", "1", "_", ";", "/", '"', "(", "[", "{", "\\", "1,", "a=", "s/", "\n.", "edit "]
"""What crafted text repeats. None contains a single quote, so a shell reads all of them as one argument."""

MORE_UNITS = [
    *UNITS, "\t", "-", ".", "=", ",", "|", "&", "!", "#", "*", "%", "@", "~", "}", ")", "]", "<", ">", "$",
    "`", "'", "\\\n", "a ", "1 ", " ;", "\n ", "/a", "[a", "\\d", "a\n", "$(", "${", "--", "-a", "é", "| ",
    "$(a|", "../",
]  # fmt: skip

RUNS = Runs(program=("zap",), flags="rf", words=("--force",))


def crafted(unit: str, length: int) -> str:
    """Units that nothing ends, so a pattern that can match them in several ways has to try all."""
    return unit * (length // len(unit)) + "X\x7f"


# ---- arguments of programs


def understood_programs() -> dict[str, ProgramUsage]:
    """One program for each usage, so that every entry of the table is tried once."""
    found: dict[int, tuple[str, ProgramUsage]] = {}

    def add(name: str, usage: ProgramUsage | Subcommands) -> None:
        if isinstance(usage, ProgramUsage):
            found.setdefault(id(usage), (name, usage))
        else:
            for subcommand, nested in usage.usages.items():
                add(f"{name} {subcommand}", nested)

    for name, usage in PROGRAMS.items():
        add(name, usage)
    return dict(found.values())


def commands_of(name: str, usage: ProgramUsage) -> Iterator[str]:
    """Calls of a program with an argument at every place whose text is read in a way of its own."""
    yield f"{name} '@'"
    yield f"{name} x '@'"
    read = {match[2]: match[1] for match in re.finditer(r"(-[\w-]*)([!&%~=@+$])", usage.options or "")}
    for option in read.values():
        yield f"{name} {option} '@' x"


@pytest.mark.parametrize("name", understood_programs())
def test_crafted_arguments_cost_in_proportion_to_their_length(name: str) -> None:
    slow = [
        (command, unit)
        for command in commands_of(name, understood_programs()[name])
        for unit in UNITS
        if not grows_in_proportion(
            lambda length, command=command, unit=unit: RUNS.check(command.replace("@", crafted(unit, length)))
        )
    ]
    assert slow == []


# ---- patterns


def searches() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every search with a pattern in the package, with the method that is really used."""
    for found in pkgutil.iter_modules(shell.__path__):
        module = importlib.import_module(f"{shell.__name__}.{found.name}")
        patterns = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        tree = ast.parse(inspect.getsource(module))
        uses = {
            (ast.unparse(node.value), node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in patterns
        }
        # A pattern that is passed on is used by the methods that read words, at one place.
        uses |= {(name, "match") for name in patterns.keys() - {name for name, _ in uses}}
        for name, method in sorted(uses):
            yield f"{found.name}.{name}.{method}", search(patterns[name], method)
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(str(pattern)), *_]):
                    if method != "compile":
                        yield f"{found.name} {pattern}", search(re.compile(pattern), method)
    for name, usage in understood_programs().items():
        if usage.refused:
            yield f"refused of {name}", re.compile(usage.refused).match


def search(pattern: re.Pattern[str], method: str) -> Callable[[str], object]:
    """A search as a function of the text alone, which uses up all results."""
    if method in {"sub", "subn"}:
        return lambda text: getattr(pattern, method)("", text)
    return lambda text: take_all(getattr(pattern, method)(text))


def take_all(result: object) -> None:
    """Use up the results of `finditer`."""
    if isinstance(result, Iterator):
        for _ in result:
            pass


SEARCHES = dict(searches())


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_costs_in_proportion_to_the_text(name: str) -> None:
    slow = [
        unit
        for unit in MORE_UNITS
        if not grows_in_proportion(lambda length, unit=unit: SEARCHES[name](crafted(unit, length)))
    ]
    assert slow == []
