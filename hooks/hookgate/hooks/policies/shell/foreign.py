"""Code of small languages: the part of it that certainly runs no other program."""

import re

from hookgate.hooks.policies.shell.script import UnreadableError

_MAX_LENGTH = 16 * 1024
"""The maximum number of characters that are searched, as a search holds the interpreter's lock."""

_AWK = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)|\|&|-v")
_DATABASE = re.compile(
    r"\\(?!(?:d\w*|l|c|x|t|q|timing|conninfo)\b)"  # psql
    r"|^\s*\.(?!(?:tables|schema|headers|mode|quit|exit|dump|indexes|databases|width|nullvalue)\b)"
    r"|\bedit\s*\("  # sqlite3
    r"|\b(?:program|system|pager|tee)\b",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESS = r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED_COMMAND = re.compile(
    rf"[ \t;\n]*(?:{_ADDRESS}[ \t]*(?:,[ \t]*(?:[+~]?[0-9]+|{_ADDRESS})[ \t]*)?)?!?[ \t]*"
    r"(?:[{}dDpPgGhHxnN=](?=[ \t;\n}]|\Z)|[{}]|[qQlL][ \t]*[0-9]*(?=[ \t;\n}]|\Z)|[aic][^\n]*(?:\\\n[^\n]*)*"
    r"|[btT:][ \t]*\w*(?=[ \t;\n}]|\Z)|#[^\n]*"
    r"|([sy])([/|,#@%!:+_~^])(?:(?!\2)[^\\\n]|\\[^\n])*\2(?:(?!\2)[^\\]|\\.)*\2[gpiIMm0-9]*(?=[ \t;\n}]|\Z))"
    r"|[ \t;\n]+",
    re.DOTALL,
)


def is_harmless(program: str, code: str) -> bool:
    """Return whether code certainly runs no program. Raises UnreadableError if code of a small language may.

    Code of other languages is never certain.
    """
    if program.endswith("awk"):
        harmless = len(code) <= _MAX_LENGTH and _AWK.search(code) is None
    elif program.endswith("sed"):
        harmless = len(code) <= _MAX_LENGTH and _is_harmless_sed(code)
    elif program in {"psql", "mysql", "sqlite3"}:
        has_backquote = "\\" in code and "`" in code
        harmless = len(code) <= _MAX_LENGTH and not has_backquote and _DATABASE.search(code) is None
    else:
        return False
    if not harmless:
        raise UnreadableError(f"the code of {program} may run a program")
    return True


def _is_harmless_sed(code: str) -> bool:
    at = 0
    while at < len(code):
        command = _SED_COMMAND.match(code, at)
        if not command or command.end() == at:
            return False
        at = command.end()
    return True
