"""Reads the words of a shell script: quotes, expansions and here-documents. Nothing is run or expanded."""

import re
from abc import ABC, abstractmethod
from typing import Self

from hookgate.hooks.policies.shell.script import FOLDERS, ShellScript, UnreadableError
from hookgate.hooks.policies.shell.words import NUMBER, UNKNOWN, Word, join_words, literal

_LITERAL = re.compile(r"[^ \t\n\r;&|()<>'\"\\$`]+")
_REGEX = re.compile(r"[^ \t\n\r;&<>'\"\\$`]+")
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_IN_BRACES = re.compile(r"[^'\"\\$`{}<>]+")
_BACKQUOTED = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)
_ANSI_QUOTED = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "?": "?"}
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w{0,254})|\{([A-Za-z_]\w{0,254})\})", re.ASCII)
_SPECIAL = re.compile(r"\$([0-9@*#?$!_-])")
_LENGTH = re.compile(r"\$\{#(?:[A-Za-z_]\w{0,254}|\d+|[@*])?(?:\[[@*]\])?\}", re.ASCII)
_KEYS = re.compile(r"\$\{![A-Za-z_]\w{0,254}\[[@*]\]\}", re.ASCII)
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*|\d+|[@*?$-]|!(?=\}))", re.ASCII)
_TRANSFORM = re.compile(r"@[QULuE](?=\})")
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|//?[#%]?|\^\^?|,,?")
_NUMBER_RANGE = re.compile(r"\{-?\d+\.\.-?\d+\}", re.ASCII)
_COUNT = re.compile(
    r"\$\((?:(nproc|date(?= \+%s)|id(?= -u)) ?(?:\+%s|-u)?|[^;&\n()<>`'\"]+\| *(wc) -[lcw] *)\)"
)
"""A substitution whose output is a number."""

_ARITHMETIC = re.compile(
    r"(?P<blank>[ \t\n]+)|(?P<number>\d[\w#]*)|(?P<name>[A-Za-z_]\w*)"
    r"(?P<set>[ \t]*(?:[-+*/%&|^]|<<|>>)?=(?!=))?"
    r"|(?P<operator>[-+*/%<>=!&|^~?:,])",
    re.ASCII,
)


class WordReader(ABC):
    """A position in the text of a script, and methods that read words from there."""

    def __init__(self, text: str, script: ShellScript) -> None:
        script.budget.spend(length=len(text))
        self.text = text
        self.at = 0
        self.script = script

    @abstractmethod
    def read_substitution(self) -> None:
        """Read the commands of a substitution up to its closing parenthesis, and skip that."""

    @abstractmethod
    def read_script(self) -> None:
        """Read all commands up to the end of the text."""

    def read_word(self, characters: re.Pattern[str] = _LITERAL) -> Word:
        """Read a word. Raises UnreadableError if there is none."""
        start, parts, bare = self.at, list[Word](), list[str]()
        while True:
            self.script.budget.spend()
            part = self._read_part(characters, bare)
            if part is None:
                break
            parts.append(part)
        if self.at == start:
            raise self.error("a word is missing")
        return _with_wildcards(join_words(parts) if parts else literal(""), "".join(bare))

    def read_regex(self) -> Word:
        """Read a regular expression, which may contain parentheses and bars."""
        return self.read_word(_REGEX)

    def read_arithmetic(self, end: str, separator: str = "") -> None:
        """Read an arithmetic expression up to `end`, and skip that."""
        depth = 0
        while depth or not self.text.startswith(end, self.at):
            self.script.budget.spend()
            character = self.text[self.at : self.at + 1]
            if token := _ARITHMETIC.match(self.text, self.at):
                self.at = token.end()
                self._use_name(token)
            elif character == "$":
                word = self._read_dollar(quoted=True)
                if word.variable:
                    self.script.variables.numbers.add(word.variable)
                elif not word.number:
                    self.script.mark("arithmetic uses text that is known only when it runs")
            elif character == "(" or (character == ")" and depth):
                depth += 1 if character == "(" else -1
                self.at += 1
            elif character and character in separator:
                self.at += 1
            else:
                raise self.error("arithmetic is not understood")
        self.at += len(end)

    def read_expandable(self, end: str) -> Word:
        """Read text in which expansions are active, up to `end` or, if that is empty, the end of the text."""
        parts = [literal("")]
        while not (end and self.text.startswith(end, self.at)):
            self.script.budget.spend()
            if run := _IN_QUOTES.match(self.text, self.at):
                parts.append(self._take(run))
                continue
            character, following = self.text[self.at : self.at + 1], self.text[self.at + 1 : self.at + 2]
            if not character:
                if end:
                    raise self.error("a quotation has no end")
                break
            if character == "$":
                parts.append(self._read_dollar(quoted=True))
            elif character == "`":
                parts.append(self._read_backquotes(quoted=True))
            elif character == "\\":
                parts.append(literal(_unescaped(following, end)))
                self.at += 1 + len(following)
            else:
                parts.append(literal(character))
                self.at += 1
        self.at += len(end)
        return join_words(parts[1:] if len(parts) == 2 else parts)  # a single part stays what it is

    def error(self, reason: str) -> UnreadableError:
        """Return an error that names the line."""
        return UnreadableError(f"{reason} in line {self.text.count(chr(10), 0, self.at) + 1}")

    def child(self, text: str) -> Self:
        """Return a reader of a text within the script."""
        return type(self)(text, self.script)

    # ---- parts of a word

    def _read_part(self, characters: re.Pattern[str], bare: list[str]) -> Word | None:
        """Read a part of a word, and add its unquoted text to `bare`. Returns None at the end of the word."""
        text, at = self.text, self.at
        if run := characters.match(text, at):
            bare.append(run[0])
            return self._take(run)
        character, following = text[at : at + 1], text[at + 1 : at + 2]
        match character:
            case "\\" if following == "\n":
                self.at += 2
                return literal("")
            case "<" | ">" if following == "(":
                self.at += 2
                self.read_substitution()
                part = Word(("/dev/fd/", None))
            case "\\" if following:
                self.at += 2
                part = literal(following)
            case "'":
                end = text.find("'", at + 1)
                if end < 0:
                    raise self.error("a quotation has no end")
                part, self.at = literal(text[at + 1 : end]), end + 1
            case '"':
                self.at += 1
                part = self.read_expandable('"')
            case "$":
                part = self._read_dollar(quoted=False)
            case "`":
                part = self._read_backquotes(quoted=False)
            case "" | " " | "\t" | "\n" | ";" | "&" | "|" | "(" | ")" | "<" | ">":
                return None
            case _:
                raise self.error("a control character is not quoted")
        bare.append("\0")
        return part

    def _take(self, run: re.Match[str]) -> Word:
        self.at = run.end()
        return literal(run[0])

    def _read_dollar(self, quoted: bool) -> Word:  # noqa: PLR0911  # one case per kind
        text, at = self.text, self.at
        if text.startswith("$\\\n", at) or text.startswith("$(\\\n", at):
            raise self.error("a line ends within an expansion")
        if text.startswith("$[", at):
            raise self.error("$[…] is not understood; write $((…))")
        if variable := _VARIABLE.match(text, at):
            self.at = variable.end()
            name = variable[1] or variable[2]
            if name in FOLDERS:
                self.script.variables.plain.add(name)
                return Word(("/", None), splits=not quoted)
            return Word((None,), splits=not quoted, variable=name)
        if special := _SPECIAL.match(text, at):
            self.at = special.end()
            return NUMBER if special[1] in "#?$!" else Word((None,), splits=not quoted or special[1] == "@")
        if text.startswith('$"', at) and not quoted:
            self.at += 2
            return self.read_expandable('"')
        if text.startswith("$'", at) and not quoted:
            return self._read_ansi()
        with self.script.nested():
            if text.startswith("$((", at):
                self.at += 3
                self.read_arithmetic("))")
                return NUMBER
            if text.startswith("$(", at):
                self.at += 2
                self.read_substitution()
                count = _COUNT.fullmatch(text, at, self.at) if text is self.text else None
                if count:
                    self.script.counters.add(count[1] or count[2])
                    return NUMBER
                return Word((None,), splits=not quoted)
            if text.startswith("${", at):
                return self._read_braced(quoted)
        self.at += 1
        return literal("$")

    def _read_ansi(self) -> Word:
        quoted = _ANSI_QUOTED.match(self.text, self.at)
        if not quoted:
            raise self.error("a quotation has no end")
        if "\\'" in quoted[1]:
            raise self.error("$'…' with a quote is not understood, as shells differ")
        self.at = quoted.end()
        if any(escaped not in _ANSI for escaped in _ANSI_ESCAPE.findall(quoted[1])):
            return Word((None,))
        return literal(_ANSI_ESCAPE.sub(lambda match: _ANSI[match[1]], quoted[1]))

    def _read_backquotes(self, quoted: bool) -> Word:
        whole = _BACKQUOTED.match(self.text, self.at)
        if not whole or (quoted and '\\"' in whole[1]):
            raise self.error("backquotes are not understood; write $(…)")
        self.at = whole.end()
        with self.script.nested():
            self.child(re.sub(r"\\([`$\\])", r"\1", whole[1])).read_script()
        return Word((None,), splits=not quoted)

    # ---- parameter expansions

    def _read_braced(self, quoted: bool) -> Word:
        """Read `${…}`."""
        text = self.text
        if length := _LENGTH.match(text, self.at):
            self.at = length.end()
            return NUMBER
        if keys := _KEYS.match(text, self.at):
            self.at = keys.end()
            return UNKNOWN
        start = _BRACED.match(text, self.at)
        if not start:
            raise self.error("an expansion is not understood")
        self.at = start.end()
        several = start[1] == "@" or text.startswith("[@]", self.at)
        if text.startswith(("[@]", "[*]"), self.at):
            self.at += 3
        elif text.startswith("[", self.at):
            self.at += 1
            self.read_arithmetic("]")
        if operator := _OPERATOR.match(text, self.at):
            self.at = operator.end()
            if operator[0].endswith("="):
                self.script.variables.set(start[1], UNKNOWN)
            self._read_braced_word(quoted)
        elif transform := _TRANSFORM.match(text, self.at):
            self.at = transform.end()
        elif text.startswith(":", self.at):
            self.at += 1
            self.read_arithmetic("}")
            self.at -= 1
        if not text.startswith("}", self.at):
            raise self.error("an expansion is not understood")
        self.at += 1
        return Word((None,), splits=not quoted or several)

    def _read_braced_word(self, quoted: bool) -> None:
        """Read the word or pattern of `${…}`, up to the brace."""
        while not self.text.startswith("}", self.at):
            self.script.budget.spend()
            character, following = self.text[self.at : self.at + 1], self.text[self.at + 1 : self.at + 2]
            if run := _IN_BRACES.match(self.text, self.at):
                self.at = run.end()
            elif character == "$":
                self._read_dollar(quoted)
            elif character == "`":
                self._read_backquotes(quoted)
            elif character == "\\" and following and following != "\n":
                self.at += 2
            elif character and character in "'\"" and not quoted:
                self._read_part(_LITERAL, [])
            else:
                raise self.error("an expansion is not understood")

    def _use_name(self, token: re.Match[str]) -> None:
        """Note the use of a variable in arithmetic, and read its subscript."""
        if name := token["name"]:
            self.script.variables.numbers.add(name)
            if token["set"]:
                self.script.variables.set(name, NUMBER)
            elif self.text.startswith("[", self.at):
                self.at += 1
                with self.script.nested():
                    self.read_arithmetic("]")


def _unescaped(following: str, end: str) -> str:
    """Return what a backslash and the character after it stand for in text that ends with `end`."""
    if following == "\n":
        return ""
    return following if following and following in f"$`\\{end}" else f"\\{following}"


def _with_wildcards(word: Word, bare: str) -> Word:
    """Return the word with the effects of its unquoted text: braces expand to words, wildcards to names."""
    opening, closing = bare.find("{"), bare.rfind("}")
    inner = bare[opening:closing] if opening >= 0 else ""
    if "," in inner or ".." in inner:
        number = _NUMBER_RANGE.fullmatch(bare) is not None
        return Word((word.head.partition("{")[0], None), splits=True, number=number)
    if "*" in bare or "?" in bare or 0 <= bare.find("[") < bare.rfind("]"):
        return Word(word.parts, word.splits, glob=True)
    return word
