"""Find the errors that the gateway answers to clients, by reading its source code.

Every error is an `ApiError`, made by its class or by one of the functions in `_FUNCTIONS`. The parts of a
message that are known only at run time become `…`.
"""

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROXY = Path(__file__).parents[2] / "proxy" / "hookgate" / "proxy"

_FOLDERS = ("audit", "calls", "keys", "routes", "server", "sessions", "upstream")
"""The packages whose errors reach clients. Those of the admin listener and the mock upstream do not."""

_FUNCTIONS = {
    "body_refused": (400, "BODY_REFUSED", "hookgate refuses the request body: "),
    "policy_denied": (403, "POLICY_DENIED", ""),
    "not_a_route": (403, "ROUTE_NOT_ALLOWED", ""),
    "request_refused": (400, "REQUEST_REFUSED", ""),
}
"""Functions of `errors` that return an error: its status, its reason, and what precedes the given message."""

ANY = "…"


@dataclass(frozen=True, order=True, slots=True)
class FoundError:
    """An error in the code. `reason` is empty if it has none."""

    reason: str
    status: int
    message: str


@functools.cache
def find_errors() -> tuple[FoundError, ...]:
    """Return all errors, sorted by reason, status and message. The code is read once.

    Raises ValueError for an error whose reason cannot be found out in this way.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PROXY.rglob("*.py")}
    constants = {
        name: value for tree in trees.values() for name, value in _constants(tree).items() if name[0] != "_"
    }
    found = {
        error
        for path, tree in trees.items()
        if path.relative_to(PROXY).parts[0] in _FOLDERS
        for error in _Scan(tree, constants).errors()
    }
    return tuple(sorted(found))


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the values of the constants of a module."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


class _Scan:
    """Finds the errors of one module."""

    def __init__(self, tree: ast.Module, imported: dict[str, ast.expr]) -> None:
        self._tree = tree
        self._names = imported | _constants(tree)
        self._all = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        self._functions = {function.name: function for function in self._all}

    def errors(self) -> Iterator[FoundError]:
        for function in self._all:
            scope = self._names | _assigned(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    yield from self._made(node, scope, in_table=_returns_error(function))
                elif isinstance(node, ast.Tuple) and _returns_error(function):
                    yield from self._paired(node, scope)

    def _made(self, call: ast.Call, scope: dict[str, ast.expr], *, in_table: bool) -> Iterator[FoundError]:
        """Yield the errors that a call makes; `in_table` says whether a table may have their reasons."""
        name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
        if name in _FUNCTIONS and call.args:
            status, reason, before = _FUNCTIONS[name]
            status = next(iter(self._statuses(call.args[1], scope)), status) if len(call.args) > 1 else status
            for text in self._texts(call.args[0], scope):
                yield FoundError(reason, status, before + text)
                if name == "body_refused" and text == ANY:  # a BodyError, which has a status of its own
                    yield FoundError("BODY_TOO_LARGE", 413, before + text)
        elif name in ("ApiError", "super().__init__") and len(call.args) >= 2:
            status, message, *rest = call.args
            statuses = self._statuses(status, scope)
            reasons = self._texts(rest[0], scope) if rest else [""]
            if statuses and reasons == [ANY] and not in_table:
                raise ValueError(f"the reason of this error is unknown: {ast.unparse(call)}")
            for code, reason in itertools.product(statuses, reasons):
                if reason != ANY:
                    yield from (FoundError(reason, code, text) for text in self._texts(message, scope))

    def _paired(self, pair: ast.Tuple, scope: dict[str, ast.expr]) -> Iterator[FoundError]:
        """Yield the errors of a pair of message and reason in a table."""
        reason = pair.elts[-1]
        if (
            len(pair.elts) == 2
            and isinstance(reason, ast.Constant)
            and re.fullmatch(r"[A-Z_]+", str(reason.value))
        ):
            for text in self._texts(pair.elts[0], scope):
                yield FoundError(str(reason.value), 403, re.sub(r"\{[^{}]*\}", ANY, text))

    def _statuses(self, node: ast.expr, scope: dict[str, ast.expr]) -> list[int]:
        return [int(text) for text in self._texts(node, scope) if text.isdigit()]

    def _texts(self, node: ast.expr, scope: dict[str, ast.expr]) -> list[str]:
        """Return what an expression can be, with `…` for what is not known."""
        match node:
            case ast.Constant(value=value):
                return [str(value)]
            case ast.IfExp(body=one, orelse=other):
                return [*self._texts(one, scope), *self._texts(other, scope)]
            case ast.Name(id=name) if name in scope:
                return self._texts(scope[name], {key: value for key, value in scope.items() if key != name})
            case ast.JoinedStr(values=parts):
                found = [""]
                for part in parts:
                    inner = part.value if isinstance(part, ast.FormattedValue) else part
                    known = isinstance(inner, ast.Constant) or _is_constant(inner)
                    pieces = self._texts(inner, scope) if known else [ANY]
                    found = [text + piece for text in found for piece in pieces]
                return found
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [
                    one + other for one in self._texts(left, scope) for other in self._texts(right, scope)
                ]
            case ast.Call(func=ast.Attribute(value=template, attr="format")):
                return [re.sub(r"\{[^{}]*\}", ANY, text) for text in self._texts(template, scope)]
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                return self._returned(self._functions[name])
            case _:
                return [ANY]

    def _returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
        """Return the texts that a function returns."""
        scope = self._names | _assigned(function)
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return [text for value in values for text in self._texts(value, scope)]


def _returns_error(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(function.returns, ast.Name) and function.returns.id == "ApiError"


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.isupper()


def _assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """Return the values of the local names that are assigned once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}
