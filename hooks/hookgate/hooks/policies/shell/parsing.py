"""Parses shell scripts into their simple commands, at any depth. Nothing is run or expanded.

The parser reads a subset of bash's grammar. Anything else is an error, so that nothing is read differently
than bash reads it. Its time is linear in the length of the script.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from hookgate.hooks.policies.shell.expansions import WordReader
from hookgate.hooks.policies.shell.script import ShellScript, SimpleCommand
from hookgate.hooks.policies.shell.words import UNKNOWN, Word, added_to, join_words, literal

DECLARATIONS = frozenset({"declare", "typeset", "local", "export", "readonly"})
"""The commands whose arguments may be assignments of lists."""

_BLANKS = re.compile(r"[ \t]*(?:#[^\n]*)?")
_UNQUOTED = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_KEYWORD = re.compile(r"[^ \t\n;&|()<>'\"\\$`]{1,8}(?=[ \t\n;&|()<>]|\Z)")
_NAME = re.compile(r"[A-Za-z_]\w{0,254}(?=[ \t\n;(]|\Z)", re.ASCII)
_FUNCTION = re.compile(r"([^ \t\n;&|()<>'\"\\$`={}]{1,255})[ \t]*\([ \t]*\)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,254})(\[|\+?=)", re.ASCII)
_ELEMENT = re.compile(r"\[\d+\]=", re.ASCII)
# Before options other than -p, `time` is a program.
_PREFIX = re.compile(r"(?:!|time[ \t]+-p|time(?![ \t]+[-\\]))(?=[ \t\n;&|()<>]|\Z)")
_IN_BOTH = r"(\d{1,9}|\{[A-Za-z_]\w{0,254}\})?(<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())"
_REDIRECTION = re.compile(rf"{_IN_BOTH}|(&>>?)(?!\()", re.ASCII)
_REDIRECTION_IN_DASH = re.compile(_IN_BOTH, re.ASCII)
_DELIMITER = re.compile(
    r"[ \t]*(?:(?P<plain>[\w.:+@%-]{1,255})|'(?P<single>[^'\n]*)'|\"(?P<double>[^\"\\$`\n]*)\""
    r"|\\(?P<escaped>\w{1,255}))"
    r"(?=[ \t\n;&|<>)]|\Z)"
)
_DESCRIPTOR = re.compile(r"[0-9]+|.*\}", re.DOTALL)
_CONDITIONAL_OPERATORS = frozenset({"=", "==", "!=", "=~", "-nt", "-ot", "-ef"})
_NUMERIC_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_UNARY_OPERATORS = frozenset(f"-{letter}" for letter in "abcdefghknoprstuwxzGLNOS")


@dataclass(slots=True)
class _HereDocument:
    command: SimpleCommand | None
    delimiter: str
    quoted: bool
    indented: bool


class Parser(WordReader):
    """Adds the commands of a text to a script. Raises UnreadableError for what is not understood."""

    def __init__(self, text: str, script: ShellScript) -> None:
        super().__init__(text, script)
        self._here_documents: list[_HereDocument] = []
        self._outer = 0

    def read_script(self) -> None:
        """Read all commands of the text."""
        self._read_list(())
        if self.at < len(self.text):
            raise self.error(f"{self.text[self.at]} is not expected")
        if self._here_documents:
            raise self.error("a here-document has no end")

    def read_substitution(self) -> None:
        """Read the commands of a substitution up to its closing parenthesis, and skip that."""
        here_documents, self._here_documents = self._here_documents, []
        self._outer += len(here_documents)
        with self.script.nested():
            self._read_list((")",))
        if self._here_documents:
            raise self.error("a here-document has no end")
        self._outer -= len(here_documents)
        self._here_documents = here_documents
        self._expect(")")

    # ---- lists and pipelines

    def _read_list(self, ends: Collection[str]) -> None:
        """Read commands up to one of these operators or reserved words, or to the end of the text."""
        while True:
            self._skip_lines()
            if self._is_at(ends):
                return
            self._read_pipeline()
            self._skip_blanks()
            if self.text.startswith(("&&", "||"), self.at):
                self.at += 2
                self._skip_lines()
                if self._is_at(ends):
                    raise self.error("a command is missing")
            elif self.text.startswith((";;", ";&"), self.at) or self._is_at(ends):
                return
            elif self.text[self.at] in ";&":
                self.at += 1
            elif self.text[self.at] != "\n":
                raise self.error(f"{self.text[self.at]} is not expected")

    def _read_pipeline(self) -> None:
        while True:
            may_be_empty = self._read_prefixes()
            if self.text[self.at : self.at + 1] not in {"", "\n", ";", "&", "|", ")"}:
                self._read_command()
            elif not may_be_empty:
                raise self.error("a command is missing")
            self._skip_blanks()
            if not self.text.startswith("|", self.at) or self.text.startswith("||", self.at):
                return
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._skip_lines()

    def _read_prefixes(self) -> bool:
        """Read the reserved words `!` and `time`, and return whether there are any."""
        start = self.at
        while True:
            self._join_lines()
            prefix = _PREFIX.match(self.text, self.at)
            if not prefix:
                return self.at > start
            self.at = prefix.end()
            self._skip_blanks()

    # ---- commands

    def _read_command(self) -> None:
        with self.script.nested():
            self._join_lines()
            word = self._keyword()
            if word in _COMPOUND:
                self.at += len(word)
                _COMPOUND[word](self)
            elif self.text.startswith("(", self.at):
                self._read_parenthesis()
            elif word in _MISPLACED:
                raise self.error(f"the reserved word {word} is not expected")
            elif function := _FUNCTION.match(self.text, self.at):
                self.at = function.end()
                self.script.functions.add(function[1])
                self._skip_lines()
                self._read_command()
                return
            else:
                self._read_simple_command()
                return
            self._skip_blanks()
            while self._read_redirection(None):
                self._skip_blanks()

    def _read_parenthesis(self) -> None:
        if self.text.startswith("((", self.at):
            self.at += 2
            self.read_arithmetic("))")
            return
        if self.text.startswith("(\\\n", self.at):
            raise self.error("a line ends within an operator")
        self.at += 1
        self._read_block((")",))
        self._expect(")")

    def _read_group(self) -> None:
        self._read_block(("}",))
        self._expect("}")

    def _read_if(self) -> None:
        self._read_block(("then",))
        self._expect("then")
        self._read_block(("elif", "else", "fi"))
        while self._keyword() == "elif":
            self._expect("elif")
            self._read_block(("then",))
            self._expect("then")
            self._read_block(("elif", "else", "fi"))
        if self._keyword() == "else":
            self._expect("else")
            self._read_block(("fi",))
        self._expect("fi")

    def _read_while(self) -> None:
        self._read_block(("do",))
        self._read_loop()

    def _read_for(self) -> None:
        self._skip_blanks()
        if self.text.startswith("((", self.at):
            self.at += 2
            self.read_arithmetic("))", separator=";")
        else:
            self._read_loop_words(self._read_name())
        self._skip_blanks()
        if self.text.startswith(";", self.at):
            self.at += 1
        self._read_loop()

    def _read_loop_words(self, name: str) -> None:
        words = [UNKNOWN]
        self._skip_lines()
        if self._keyword() == "in":
            self._expect("in")
            words = []
            self._skip_blanks()
            while self.text[self.at : self.at + 1] not in {"", ";", "\n"}:
                words.append(self.read_word())
                self._skip_blanks()
        for word in words:
            self.script.variables.set(name, word)

    def _read_loop(self) -> None:
        self._skip_lines()
        self._expect("do")
        self._read_block(("done",))
        self._expect("done")

    def _read_case(self) -> None:
        self._skip_blanks()
        self.read_word()
        self._skip_lines()
        self._expect("in")
        self._skip_lines()
        while self._keyword() != "esac":
            if self.text.startswith("(", self.at):
                self.at += 1
            self._read_patterns()
            self._read_list((";;", ";&", "esac"))
            if self._keyword() != "esac":
                operator = next(
                    (each for each in (";;&", ";;", ";&") if self.text.startswith(each, self.at)), ""
                )
                if not operator:
                    raise self.error("a case has no end")
                self.at += len(operator)
            self._skip_lines()
        self._expect("esac")

    def _read_patterns(self) -> None:
        while True:
            self._skip_blanks()
            self.read_word()
            self._skip_blanks()
            if not self.text.startswith("|", self.at):
                break
            self.at += 1
        self._expect(")")

    def _read_function(self) -> None:
        self._skip_blanks()
        self.script.functions.add(self.read_word().text or "")
        self._skip_blanks()
        if self.text.startswith("(", self.at):
            self.at += 1
            self._skip_blanks()
            self._expect(")")
        self._skip_lines()
        self._read_command()

    def _read_coprocess(self) -> None:
        self._skip_blanks()
        self._read_command()

    def _read_block(self, ends: Collection[str]) -> None:
        """Read at least one command."""
        self._skip_lines()
        if self._is_at(ends):
            raise self.error("a command is missing")
        self._read_list(ends)

    # ---- conditional expressions

    def _read_conditional(self) -> None:
        """Read the expression of `[[ … ]]`."""
        clause: list[Word] = []
        depth = 0
        while True:
            self._skip_lines()
            self.script.budget.spend()
            if self._keyword() == "]]" and not depth:
                break
            if operator := next((o for o in ("&&", "||", "(", ")") if self.text.startswith(o, self.at)), ""):
                depth += {"(": 1, ")": -1}.get(operator, 0)
                self.at += len(operator)
                self._check_clause(clause)
                clause = []
            elif self.text.startswith(("<", ">"), self.at) and not self.text.startswith("(", self.at + 1):
                self.at += 1
                clause.append(literal("="))
            elif self._keyword() == "!" and not clause:
                self.at += 1
            else:
                after_match = len(clause) == 2 and clause[1].text == "=~"  # the right operand
                clause.append(self.read_regex() if after_match else self.read_word())
        self._check_clause(clause)
        self._expect("]]")

    def _check_clause(self, clause: list[Word]) -> None:
        match [word.text for word in clause]:
            case [] | [_]:
                return
            case [operator, _] if operator in _UNARY_OPERATORS:
                return
            case [_, operator, _] if operator in _CONDITIONAL_OPERATORS:
                return
            case [_, operator, _] if operator in _NUMERIC_OPERATORS:
                for word in (clause[0], clause[2]):
                    self._evaluate(word)
            case _:
                raise self.error("a condition is not understood")

    def _evaluate(self, word: Word) -> None:
        if word.variable:
            self.script.variables.numbers.add(word.variable)
        elif not word.is_number:
            self.script.mark("arithmetic uses text that is known only when it runs")

    # ---- simple commands

    def _read_simple_command(self) -> None:
        command = SimpleCommand()
        while True:
            self._skip_blanks()
            self._join_lines()
            if self._read_redirection(command):
                continue
            if self.text[self.at : self.at + 1] in {"", "\n", ";", "&", "|", ")"}:
                break
            assignment = _ASSIGNMENT.match(self.text, self.at)
            if assignment and (not command.words or self._declares_list(command, assignment)):
                self._read_assignment(command, assignment)
            else:
                word = self.read_word()
                if self.text.startswith(("<", ">"), self.at) and _DESCRIPTOR.fullmatch(word.text or "}"):
                    raise self.error("a redirection is not understood")
                if assignment and command.words and command.words[0].text in DECLARATIONS:
                    word = replace(word, splits=False)
                command.words.append(word)
        self.script.commands.append(command)

    def _declares_list(self, command: SimpleCommand, assignment: re.Match[str]) -> bool:
        return command.words[0].text in DECLARATIONS and self.text.startswith("(", assignment.end())

    def _read_assignment(self, command: SimpleCommand, assignment: re.Match[str]) -> None:
        name, operator = assignment[1], assignment[2]
        self.at = assignment.end()
        if operator == "[":
            self.read_arithmetic("]")
            self.at += self.text.startswith("+", self.at)
            self._expect("=")
        if self.text.startswith("(", self.at):
            value = self._read_list_value(name)
        elif self.text[self.at : self.at + 1] in {"", " ", "\t", "\n", ";", "&", "|", ")"}:
            value = literal("")
        else:
            value = added_to(self.read_word(), operator)
        self.script.variables.set(name, value)
        command.assignments.append((name, value))

    def _read_list_value(self, name: str) -> Word:
        """Read the elements of a list. Returns a word that is a number if all of them are."""
        self.script.variables.arrays.add(name)
        self.at += 1
        words: list[Word] = []
        self._skip_lines()
        while not self.text.startswith(")", self.at):
            if self.text.startswith("[", self.at):
                element = _ELEMENT.match(self.text, self.at)
                if not element:
                    raise self.error("the subscript of a list is not understood")
                self.at = element.end()
            words.append(self.read_word())
            self._skip_lines()
        self.at += 1
        return Word((None,), splits=True, number=all(word.is_number for word in words))

    # ---- redirections and here-documents

    def _read_redirection(self, command: SimpleCommand | None) -> bool:
        """Read a redirection, if there is one here."""
        redirection = self._match_redirection()
        if not redirection:
            return False
        self.at = redirection.end()
        operator, is_stdin = redirection[2] or redirection[3], (redirection[1] or "0") == "0"
        if operator in {"<<", "<<-"}:
            self._read_delimiter(command if is_stdin else None, operator)
            source: Word | None = UNKNOWN
        else:
            self._skip_blanks()
            word = self.read_word()
            source = join_words([word, literal("\n")]) if operator == "<<<" else UNKNOWN
        if command and is_stdin and operator.startswith("<"):
            command.stdin = source
        return True

    def _match_redirection(self) -> re.Match[str] | None:
        return _REDIRECTION.match(self.text, self.at)

    def _read_delimiter(self, command: SimpleCommand | None, operator: str) -> None:
        delimiter = _DELIMITER.match(self.text, self.at)
        if not delimiter:
            raise self.error("the delimiter of a here-document is not understood")
        self.at = delimiter.end()
        text = next(group for group in delimiter.groups() if group is not None)
        quoted, indented = delimiter["plain"] is None, operator == "<<-"
        for other in self._here_documents:
            if other.command is command:
                other.command = None  # only the last one is the standard input
        self._here_documents.append(_HereDocument(command, text, quoted, indented))

    def _read_bodies(self) -> None:
        """Read the here-documents that begin in the next line."""
        if self._outer:
            raise self.error("a here-document begins within a substitution")
        waiting, self._here_documents = self._here_documents, []
        for document in waiting:
            body = self._read_body(document)
            command = document.command
            word = literal(body) if document.quoted else self._child_of_body(body)
            if command is not None:
                command.stdin = word

    def _child_of_body(self, body: str) -> Word:
        with self.script.nested():
            return self.child(body).read_expandable("")

    def _read_body(self, document: _HereDocument) -> str:
        """Read the lines of a here-document, up to its delimiter."""
        lines: list[str] = []
        continued = ""
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            line = self.text[self.at : end if end >= 0 else len(self.text)]
            self.at = end + 1 if end >= 0 else len(self.text)
            line = line.lstrip("\t") if document.indented else line
            if line == document.delimiter and not continued:
                return "".join(f"{line}\n" for line in lines)
            if not document.quoted:
                # A backslash at the end of a line joins it with the next one.
                joins = (len(line) - len(line.rstrip("\\"))) % 2 == 1
                whole = continued[: len(document.delimiter) + 1] + (line[:-1] if joins else line)
                if continued and document.delimiter in {whole, line}:
                    break
                continued = (whole or "\\") if joins else ""
            lines.append(line)
        raise self.error("a here-document has no end")

    # ---- blanks and reserved words

    def _skip_blanks(self) -> None:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches any text
        while self.text.startswith("\\\n", self.at):
            self.script.budget.spend()
            self.at = _BLANKS.match(self.text, self.at + 2).end()  # type: ignore[union-attr]  # as above

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self.text.startswith("\n", self.at):
            self.script.budget.spend()
            self.at += 1
            if self._here_documents or self._outer:
                self._read_bodies()
            self._skip_blanks()

    def _join_lines(self) -> None:
        """Join the next word with its continuation in the next line, as bash does before reading it."""
        while (unquoted := _UNQUOTED.match(self.text, self.at)) and self.text.startswith(
            "\\\n", unquoted.end()
        ):
            self.script.budget.spend(length=len(self.text))
            self.text = self.text[: unquoted.end()] + self.text[unquoted.end() + 2 :]

    def _keyword(self) -> str:
        """Return the next word if it may be reserved: if nothing in it is quoted."""
        word = _KEYWORD.match(self.text, self.at)
        return word[0] if word else ""

    def _is_at(self, ends: Collection[str]) -> bool:
        if self.at == len(self.text):
            return True
        self._join_lines()
        character = self.text[self.at]
        if character in ");":
            return any(self.text.startswith(end, self.at) for end in ends)
        return bool(ends) and self._keyword() in ends

    def _expect(self, token: str) -> None:
        self._skip_blanks()
        self._join_lines()
        is_next = self._keyword() == token if token[0] not in ")=" else self.text.startswith(token, self.at)
        if not is_next:
            raise self.error(f"{token} is missing")
        self.at += len(token)

    def _read_name(self) -> str:
        name = _NAME.match(self.text, self.at)
        if not name:
            raise self.error("the name of a variable is not understood")
        self.at = name.end()
        return name[0]


class DashParser(Parser):
    """Adds the commands that dash would run, as far as it differs from bash without an error.

    To dash, `[[` is the name of a program, which there is not, `((` begins two subshells, and `&>` ends a
    command, which runs in the background, and begins another one.
    """

    def _match_redirection(self) -> re.Match[str] | None:
        return _REDIRECTION_IN_DASH.match(self.text, self.at)

    def _keyword(self) -> str:
        word = super()._keyword()
        return "" if word in {"[[", "]]"} else word

    def _read_simple_command(self) -> None:
        super()._read_simple_command()
        words = self.script.commands[-1].words
        if words and words[0].text == "[[":
            del self.script.commands[-1]

    def _read_parenthesis(self) -> None:
        self.at += 1
        self._read_block((")",))
        self._expect(")")


_COMPOUND: Mapping[str, Callable[[Parser], None]] = {
    "{": Parser._read_group,
    "if": Parser._read_if,
    "while": Parser._read_while,
    "until": Parser._read_while,
    "for": Parser._read_for,
    "select": Parser._read_for,
    "case": Parser._read_case,
    "function": Parser._read_function,
    "coproc": Parser._read_coprocess,
    "[[": Parser._read_conditional,
}
_MISPLACED = frozenset({"}", "then", "elif", "else", "fi", "do", "done", "esac", "in", "]]"})
