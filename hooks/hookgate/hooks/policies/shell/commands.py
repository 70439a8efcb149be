"""Finds the commands that a shell command line would run, including those run by other commands."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hookgate.hooks.policies.shell.parsing import DashParser, Parser
from hookgate.hooks.policies.shell.programs import PROGRAMS
from hookgate.hooks.policies.shell.script import ReadingBudget, ShellScript, SimpleCommand, UnreadableError
from hookgate.hooks.policies.shell.usage import Arguments, ProgramUsage, Subcommands, divide
from hookgate.hooks.policies.shell.words import UNKNOWN, Word, added_to, join_words, literal

_MAX_LENGTH = 16 * 1024
"""The maximum number of characters that are searched, as a search holds the interpreter's lock."""

_AWK = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)|\|&|-v")
_DATABASE = re.compile(
    r"\\(?!(?:d\w*|l|c|x|t|q|timing|conninfo)\b)"  # psql
    r"|^[^\S\n]*\.(?!(?:tables|schema|headers|mode|quit|exit|dump|indexes|databases|width|nullvalue)\b)"
    r"|\b(?:edit|load_extension)\b"  # sqlite3
    r"|(?:^|;)[^\S\n]*source\b"  # mysql
    r"|\bcreate\s+(?:or\s+replace\s+)?(?:function|procedure)|\bdo\b(?!\s+(?:nothing|update)\b)"
    r"|\b(?:program|system|pager|tee|execute)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SED_BLANKS = r"[ \t;\n]"


def _sed_regex(delimiter: str) -> str:
    """Return a pattern of a regular expression in sed. Versions differ if brackets contain its delimiter."""
    brackets = rf"\[\^?\]?(?:(?!{delimiter})[^\]\\\n]|\\[^\]\n])*+\]"
    return rf"(?:(?!{delimiter})[^\[\\\n]|\\[^\n]|{brackets})*+{delimiter}"


_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_sed_regex('/')}I?)"
_SED_COMMAND = re.compile(
    rf"{_SED_BLANKS}*+(?:{_ADDRESS}[ \t]*(?:,[ \t]*(?:[+~]?[0-9]+|{_ADDRESS})[ \t]*)?)?!?[ \t]*+"
    r"(?:[{}dDpPgGhHxnN=](?=[ \t;\n}]|\Z)|[{}]|[qQlL][ \t]*[0-9]*(?=[ \t;\n}]|\Z)|[aic][^\n]*(?:\\\n[^\n]*)*"
    r"|[btT:][ \t]*\w*(?=[ \t;\n}]|\Z)|#[^\n]*"
    rf"|[sy](?P<delimiter>[/|,#@%!:+_~]){_sed_regex('(?P=delimiter)')}"
    r"(?:(?!(?P=delimiter))[^\\\n]|\\.)*+(?P=delimiter)[gpiIMm0-9]*(?=[ \t;\n}]|\Z))"
    rf"|{_SED_BLANKS}+",
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


_PLACEHOLDER = "${_}"
"""The placeholder in nested scripts for text that is known only when the command runs."""

_MAX_NAME = 255
"""The maximum length of a file's name on all systems."""

_VERSION = re.compile(r"-?(?<![\d.])[\d.]+$|\.exe$")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DECLARATION = re.compile(r"([A-Za-z_]\w*)(?:(\+?=)|$)", re.ASCII)
_CODE = re.compile(r"[^\w@%+=:,./-]")
_COMMAND_VARIABLE = re.compile(
    r"(?:.*(?:PAGER|EDITOR|BROWSER|_COMMAND|ASKPASS|_SSH|_RSH|_DIFF|_WRAPPER)|VISUAL|BASH_ENV|ENV|PS[0-4]|LESSOPEN|LESSCLOSE"
    r"|CC|CPP|CXX|LD|AR|MAKE|SHELL|GREP|DIFF|CMP|(?:NODE|JAVA_TOOL)_OPTIONS|PERL5OPT|RUBYOPT|MANOPT|LESS|GOFLAGS"
    r"|RUSTFLAGS|CARGO_BUILD_\w+|CARGO_TARGET_\w+_(?:LINKER|RUNNER)|RSYNC_CONNECT_PROG|(?i:npm_config_(?:script_shell|shell|node_options)))"
)
_SETTING_VARIABLE = re.compile(
    r"GIT_CONFIG.*|GIT_EXEC_PATH|GIT_ALLOW_PROTOCOL|(?:GNU)?MAKEFLAGS|MAKEFILES|IFS|TAR_OPTIONS|BASHOPTS|SHELLOPTS"
    r"|BASH_FUNC_.*|ZIPOPT"
)
_TEST_OPERATORS = frozenset(
    {
        "=",
        "==",
        "!=",
        "<",
        ">",
        "-eq",
        "-ne",
        "-lt",
        "-le",
        "-gt",
        "-ge",
        "-nt",
        "-ot",
        "-ef",
        "-a",
        "-o",
        ")",
        "]",
    }
)
_ALIKE = re.compile(r"(?:[\w ./:,@%+&|;\"'\n-]|(?<!&)>(?!\()|<(?!\()|(?<=[\w-])=)*+")
"""Code that all shells with a grammar like that of bash read as bash does."""
_BASH_ONLY = re.compile(r"\[\[(?!:)|(?<!\$)\(\(|&>")
"""What dash reads as other commands than bash. It is searched in quotes, too: they may contain code."""
_SETTING = re.compile(r"([\w./:@*+~-]+)=(?![\s=])")
"""The name of an option, as in `core.pager=less`. Programs that accept other separators see no other name."""


@dataclass(slots=True)
class CommandLine:
    """The commands in a command line, as far as they can be determined."""

    commands: list[tuple[Word, ...]] = field(default_factory=list)
    """Every command that may be run, each as its words, the program first."""
    foreign: list[str] = field(default_factory=list)
    """Code in other languages that is passed to their interpreters."""
    unreadable: str = ""
    """The reason why a part of it is unknown, or an empty string."""


def read_line(text: str) -> CommandLine:
    """Read a command line as bash or dash would. A line that exceeds the limits is reported as unreadable."""
    return next(read_lines([text]))


def read_lines(lines: Iterable[str | Sequence[str]]) -> Iterator[CommandLine]:
    """Read several command lines, each a text or a program and its arguments, which no shell parses.

    Together they have the limits of one line. The line that exceeds them is unreadable, and the last one.
    """
    budget = ReadingBudget()
    for line in lines:
        reader = _Reader(budget)
        if isinstance(line, str):
            reader.read_text(line)
            reader.read_as_dash(line)
        else:
            reader.script.commands.append(SimpleCommand([literal(argument) for argument in line]))
        yield reader.read_commands()
        if budget.is_spent:
            return


def _differs_in_dash(text: str) -> bool:
    return _BASH_ONLY.search(text.replace("\\\n", "")) is not None


@dataclass(frozen=True, slots=True)
class _Call:
    """A command that calls a program of the table."""

    name: str
    command: SimpleCommand
    arguments: Arguments


class _Reader:
    """Reads one command line."""

    def __init__(self, budget: ReadingBudget) -> None:
        self.script = ShellScript(budget)
        self._found = CommandLine()

    def read_text(self, text: str, is_bash: bool = True) -> None:
        """Add the commands of a text to those that are read next. Other shells than bash may read it."""
        try:
            self.script.budget.spend()
            if "\0" in text:
                raise UnreadableError("it contains a NUL, which shells ignore")
            if not text.isascii():
                text.encode()
            Parser(text, self.script).read_script()
            if not is_bash and _differs_in_dash(text):
                raise UnreadableError("shells read [[, (( and &> differently; run it with bash -c")
        except UnreadableError as error:
            self.script.mark(str(error))
        except UnicodeEncodeError:
            self.script.mark("it contains characters that cannot be passed to a shell")

    def read_as_dash(self, text: str) -> None:
        """Add the commands of a text that dash would run, where that may be others than those of bash."""
        if self.script.unreadable or not _differs_in_dash(text):
            return
        try:
            DashParser(text, self.script).read_script()
        except UnreadableError as error:
            self.script.mark(f"if sh reads it, {error}; run it with bash -c")

    def read_commands(self) -> CommandLine:
        """Read all commands, and those that they run."""
        commands, unread = self.script.commands, self.script.variables.unread
        while commands or unread:
            try:
                if commands:
                    self._read_command(commands.pop())
                else:
                    self._read_variable(*unread.pop())
            except UnreadableError as error:
                self.script.mark(str(error))
        self.script.mark(self.script.variables.unreadable())
        for name in sorted(self.script.counters & self.script.functions):
            self.script.mark(f"the output of the function {name} is not understood")
        self._found.unreadable = self.script.unreadable
        return self._found

    def _read_command(self, command: SimpleCommand) -> None:
        self.script.budget.spend(len(command.words) + 1)
        if not command.words:
            return
        self._found.commands.append(tuple(command.words))
        name = command.words[0].program
        if name is None or "{" in name:
            raise UnreadableError(
                "an expansion or wildcard names the program; write its name, or quote the expansion"
            )
        if len(name) > _MAX_NAME:
            raise UnreadableError("the name of a program is too long")
        usage = PROGRAMS.get(name)
        if usage is None:
            name = name.casefold()  # a file system may ignore case
            usage = PROGRAMS.get(_VERSION.sub("", name))
        if usage is not None:
            self._read_arguments(usage, name, command, command.words[1:])
        else:  # a program such as `bundle exec` may read a word with blanks as code
            self._search_words(command.words[not _CODE.search(name) and ":" not in name :])

    def _read_arguments(
        self, usage: ProgramUsage | Subcommands, name: str, command: SimpleCommand, words: Sequence[Word]
    ) -> None:
        group = usage if isinstance(usage, Subcommands) else None
        syntax = usage if isinstance(usage, ProgramUsage) else ProgramUsage(usage.options, "subcommand")
        arguments = divide(syntax, name, words, self.script.variables.plain)
        for option, value in arguments.options:
            if read_value := _OPTIONS.get(option.kind):
                read_value(self, name, value)
        for assignment in arguments.assignments:
            self._read_assignment(assignment)
        if arguments.runs_nothing:
            return
        if group is None:
            if read_operands := _OPERANDS.get(arguments.kind):
                read_operands(self, _Call(name, command, arguments))
        elif arguments.operands:
            self._read_subcommand(group, name, command, arguments.operands)

    def _read_subcommand(
        self, group: Subcommands, name: str, command: SimpleCommand, operands: list[Word]
    ) -> None:
        subcommand = operands[0].text
        if subcommand is not None and subcommand in group.usages:
            self._read_arguments(group.usages[subcommand], f"{name} {subcommand}", command, operands[1:])
        elif group.others == "command" and subcommand not in group.plain.split():
            self._run(operands, command)
        elif subcommand not in group.plain.split():
            raise UnreadableError(
                f"the subcommand {subcommand or 'after an expansion'} of {name} is not understood"
            )

    # ---- variables

    def _read_assignment(self, word: Word) -> None:
        """Read a word such as `A=1`."""
        name, equals, _ = word.head.partition("=")
        if not equals:
            raise UnreadableError(f"the argument {word.head} is not understood")
        self.script.variables.set(name, word.after(len(name) + 1))

    def _search_environment(self, value: Word) -> None:
        """Search the value of a variable, which may be exported and tell a program what to run."""
        for part in filter(None, value.parts):
            self._found.foreign.append(part if _CODE.search(part) else part.rpartition("/")[2])

    def _read_variable(self, name: str, value: Word) -> None:
        """Read a value of a variable, which programs may run as a command."""
        self._search_environment(value)
        if _SETTING_VARIABLE.fullmatch(name):
            raise UnreadableError(f"the effect of the variable {name} is not understood")
        if _COMMAND_VARIABLE.fullmatch(name):
            self._read_beginning(name, value)

    def _read_setting(self, name: str, word: Word) -> None:
        """Read an option such as `core.pager=less`, whose value may be a command."""
        setting = _SETTING.match(word.head)
        has_placeholder = any("%" in part for part in word.parts if part)
        if not setting or setting[1].lower().startswith("protocol.") or has_placeholder:
            raise UnreadableError(f"the option {word.head.partition('=')[0]} of {name} is not understood")
        self._read_command_of_git(word.after(setting.end()))

    def _read_command_of_git(self, word: Word) -> None:
        """Read a command that may begin with `!`, which says that a shell runs it."""
        self._read_code([word.after(1) if word.head.startswith("!") else word])

    def _set_variable(self, name: str, word: Word) -> None:
        if word.text is None or not _NAME.fullmatch(word.text):
            raise UnreadableError(f"{name} sets a variable whose name is not understood")
        self.script.variables.set(word.text, UNKNOWN)
        self.script.variables.arrays.add(word.text)

    def _read_names(self, call: _Call) -> None:
        for word in call.arguments.operands:
            self._set_variable(call.name, word)

    def _read_declarations(self, call: _Call) -> None:
        is_array = call.arguments.has("-a", "-A")
        variables = self.script.variables
        if is_array:
            variables.arrays.update(variable for variable, _ in call.command.assignments)
        for word in call.arguments.operands:
            declaration = _DECLARATION.match(word.head)
            if not declaration or (not declaration[2] and word.text is None):
                raise UnreadableError(f"{call.name} sets a variable whose call.name is not understood")
            value = added_to(word.after(declaration.end()), declaration[2] or "")
            if is_array:
                variables.arrays.add(declaration[1])
            if declaration[2]:
                variables.set(declaration[1], value)
            if call.name != "export" and (
                value.head.startswith("(") or (value.text is None and not value.head)
            ):
                variables.declared.add(declaration[1])

    def _read_test(self, call: _Call) -> None:
        """Read a condition of `[`: it must be certain which of its words are operators."""
        for word, following in itertools.pairwise([*call.arguments.operands, None]):
            if word is None:
                break
            if word.text in {"-v", "-R"} and following is not None:
                self._set_variable(call.name, following)
            elif word.variable and word.splits:
                self.script.variables.numbers.add(word.variable)
            elif word.splits or word.glob:
                raise UnreadableError(f"an expansion in {call.name} may be an operator; quote it")
            elif _may_be_operator(word) and following is not None and following.text not in _TEST_OPERATORS:
                raise UnreadableError(f"an expansion in {call.name} may be an operator; write the operator")

    def _read_arithmetic(self, call: _Call) -> None:
        for word in call.arguments.operands:
            if word.text is None:
                raise UnreadableError("arithmetic uses text that is known only when it runs")
            Parser(f"{word.text};", self.script).read_arithmetic(";")

    # ---- programs that run others

    def _run(self, words: Sequence[Word], command: SimpleCommand) -> None:
        if words:
            self.script.commands.append(SimpleCommand(list(words), stdin=command.stdin))

    def _read_operands(self, call: _Call) -> None:
        self._run(call.arguments.operands, call.command)

    def _read_operands_or_stdin(self, call: _Call) -> None:
        if call.arguments.operands:
            self._run(call.arguments.operands, call.command)
        else:
            self._read_stdin(call)

    def _read_input(self, call: _Call) -> None:
        """Read the command of `xargs`, with its input: unknown words at the end, or in place of a mark."""
        replaced = next(
            (v for option, v in call.arguments.options if option.name in {"-I", "-i", "--replace"}), None
        )
        mark = None if replaced is None else replaced.text or "{}"
        if mark is None:
            self._run(
                [*call.arguments.operands, UNKNOWN] if call.arguments.operands else [],
                SimpleCommand(stdin=UNKNOWN),
            )
            return
        words = [Word((None,)) if mark in (word.text or mark) else word for word in call.arguments.operands]
        self._run(words, SimpleCommand(stdin=UNKNOWN))

    def _read_template(self, call: _Call) -> None:
        """Read the command of `parallel`, which a shell parses together with its input."""
        self._read_code([*call.arguments.operands, UNKNOWN])

    def _read_image(self, call: _Call) -> None:
        """Read the command that a container runs."""
        entry = [value for option, value in call.arguments.options if option.name == "--entrypoint"]
        if any(word.splits for word in call.arguments.operands[:1]):
            raise UnreadableError("an expansion may call.name another program; quote it")
        self._run([*entry, *call.arguments.operands[1:]], call.command)

    def _read_find(self, call: _Call) -> None:
        run: list[Word] | None = None
        for word in call.arguments.operands:
            if word.splits:
                raise UnreadableError(
                    "an expansion among the arguments of find may call.name another program; quote it"
                )
            if run is None:
                if word.text in {"-exec", "-execdir", "-ok", "-okdir"}:
                    run = []
                elif word.text in {";", "+"}:
                    raise UnreadableError("an expansion may be the option -exec of find; write it out")
            elif word.text == ";" or (word.text == "+" and run and run[-1].head == "./"):
                self._run(run, SimpleCommand(stdin=UNKNOWN))
                run = None
            else:
                run.append(_with_file_name(word))
        if run is not None:
            raise UnreadableError("the command of find has no end")

    def _read_uv_run(self, call: _Call) -> None:
        is_script = call.arguments.has("-s", "--script") or any(
            word.text == "-" or (word.text or "").endswith(".py") for word in call.arguments.operands[:1]
        )
        if is_script:
            self._read_interpreter(call)
        elif not call.arguments.has("-m", "--module"):
            self._run(call.arguments.operands, call.command)

    def _read_targets(self, call: _Call) -> None:
        """Read the targets and variables of `make`. Recipes run what their variables contain."""
        for word in call.arguments.operands:
            if "=" in word.head:
                self._read_setting("make", word)
            elif word.text is None or "$" in word.text:
                raise UnreadableError("an expansion among the arguments of make is not understood")

    def _read_bundle(self, call: _Call) -> None:
        """Check the first argument of `tar`, which may be letters of options without a dash."""
        for word in call.command.words[1:2]:
            if not word.head.startswith("-") and (word.text is None or not {"I", "F"}.isdisjoint(word.text)):
                raise UnreadableError(
                    f"the options of {call.name} are not understood; put a dash before them"
                )

    def _refuse(self, call: _Call) -> None:
        raise UnreadableError(f"it is not understood what {call.name} runs")

    # ---- shells and their code

    def _read_joined(self, call: _Call) -> None:
        self._read_code(call.arguments.operands)

    def _read_joined_or_stdin(self, call: _Call) -> None:
        if call.arguments.operands:
            self._read_code(call.arguments.operands)
        else:
            self._read_stdin(call)

    def _read_each(self, call: _Call) -> None:
        for word in call.arguments.operands:
            self._read_command_of_git(word)

    def _read_bash(self, call: _Call) -> None:
        self._read_shell(call, is_bash=True)

    def _read_shell(self, call: _Call, is_bash: bool = False) -> None:
        operands = call.arguments.operands
        if operands and (operands[0].splits or operands[0].head.startswith("+")):
            raise UnreadableError(f"the arguments of {call.name} are not understood")
        if call.arguments.has("-c"):
            self._read_code(operands[:1], is_bash)
        elif call.arguments.has("-s") or not operands or operands[0].is_stream:
            self._read_stdin(call, is_bash)
        else:
            self._check_file(call.name, operands[0])

    def _read_similar_shell(self, call: _Call) -> None:
        self._read_shell(call)
        code = (
            call.arguments.operands[0]
            if call.arguments.has("-c") and call.arguments.operands
            else call.command.stdin
        )
        if code is not None and code.text is not None and not _ALIKE.fullmatch(code.text):
            self.script.mark(f"{call.name} may read its code differently than bash")

    def _read_other_shell(self, call: _Call) -> None:
        self._read_shell(call)
        if call.arguments.has("-c") or not call.arguments.operands:
            self.script.mark(f"the code of {call.name} is not understood")

    def _read_user_shell(self, call: _Call) -> None:
        if call.arguments.has("-u", "--user"):
            self._run(call.arguments.operands, call.command)
        elif len(call.arguments.operands) > 1:
            raise UnreadableError(f"the arguments of {call.name} are not understood")
        elif not call.arguments.has("-c", "--command"):
            self._read_stdin(call)

    def _read_command_or_code(self, call: _Call) -> None:
        operands = call.arguments.operands
        if operands and operands[0].text in {"-c", "--command"}:
            self._read_code(operands[1:2])
        elif operands and operands[0].may_be_option:
            raise UnreadableError(f"the option {operands[0].head} of {call.name} is not understood")
        else:
            self._run(operands, call.command)

    def _read_script(self, call: _Call) -> None:
        if not call.arguments.operands or call.arguments.operands[0].is_stream:
            self._read_stdin(call)
        else:
            self._check_file(call.name, call.arguments.operands[0])

    def _read_job(self, call: _Call) -> None:
        if not call.arguments.has("-f"):
            self._read_stdin(call)

    def _read_trap(self, call: _Call) -> None:
        if call.arguments.operands and call.arguments.operands[0].text != "-":
            self._read_code(call.arguments.operands[:1])

    def _read_aliases(self, call: _Call) -> None:
        for word in call.arguments.operands:
            alias, equals, body = (word.text or "").partition("=")
            if word.text is None or (equals and not re.fullmatch(r"[\w.-]+", alias)):
                raise UnreadableError("an alias is not understood")
            if equals:
                self.script.functions.add(alias)
                self.read_text(f"{body} {_PLACEHOLDER}", is_bash=False)

    def _read_option_code(self, name: str, word: Word) -> None:
        self._read_code([word])

    def _read_beginning(self, name: str, word: Word) -> None:
        """Read the beginning of a command, to which a program adds arguments."""
        self._read_code([word, literal("_"), literal("_")])

    def _read_code(self, words: Sequence[Word], is_bash: bool = False) -> None:
        """Read words that a shell joins with blanks and then parses."""
        joined = join_words(words, " ") if words else literal("")
        self.read_text("".join(_PLACEHOLDER if part is None else part for part in joined.parts), is_bash)
        if joined.text is None:
            raise UnreadableError("an expansion is part of a command that another shell reads; write it out")

    def _read_stdin(self, call: _Call, is_bash: bool = False) -> None:
        if call.command.stdin is None or call.command.stdin is UNKNOWN:
            raise UnreadableError(f"{call.name} reads its commands from elsewhere")
        self._read_code([call.command.stdin], is_bash)

    def _check_file(self, name: str, word: Word) -> None:
        """Check that a script is in a file. What the file contains is not considered."""
        if word.variable:
            self.script.variables.plain.add(word.variable)
        elif (word.text is None and not word.head.startswith("/")) or word.glob:
            raise UnreadableError(f"{name} runs a file whose name is known only when it runs")
        if word.is_stream:
            raise UnreadableError(f"{name} reads its commands from elsewhere")

    # ---- interpreters of other languages

    def _read_interpreter(self, call: _Call) -> None:
        kinds = {option.kind for option, _ in call.arguments.options}
        if "%" in kinds or "@" in kinds:
            return
        if "~" in kinds and call.arguments.has("-m"):
            for word in call.arguments.operands:
                self._search(call.name, word)
        elif not call.arguments.operands or call.arguments.operands[0].is_stream:
            self._read_foreign_stdin(call)
        else:
            self._check_file(call.name, call.arguments.operands[0])

    def _read_foreign_operand(self, call: _Call) -> None:
        """Read a program such as that of `awk`, unless options give it."""
        if not any(option.kind in "%@" for option, _ in call.arguments.options if option.kind):
            for word in call.arguments.operands[:1]:
                self._read_foreign(call.name, word)

    def _read_statements(self, call: _Call) -> None:
        """Read statements of a database's client, which come from operands, options or standard input."""
        for word in call.arguments.operands:
            self._read_foreign(call.name, word)
        if not call.arguments.operands and not any(
            option.kind in "%@" for option, _ in call.arguments.options if option.kind
        ):
            self._read_foreign_stdin(call)

    def _read_foreign(self, name: str, word: Word) -> None:
        """Add code in another language, which is not parsed, only searched for names of programs."""
        if word.text is None:
            self._search(name, word)
            raise UnreadableError(f"an expansion is part of code that {name} runs")
        if not is_harmless(name, word.text):
            self._found.foreign.append(word.text)

    def _read_foreign_stdin(self, call: _Call) -> None:
        if call.command.stdin is None or call.command.stdin is UNKNOWN:
            raise UnreadableError(f"{call.name} reads its code from elsewhere")
        self._read_foreign(call.name, call.command.stdin)

    def _search_operands(self, call: _Call) -> None:
        self._search_words(call.arguments.operands)

    def _search_words(self, words: Sequence[Word]) -> None:
        self._found.foreign += [part for word in words for part in word.parts if part]

    def _search(self, name: str, word: Word) -> None:
        text = "\0".join(part or "" for part in word.parts)
        if not is_harmless(name, text) and _CODE.search(text):
            self._found.foreign.append(text)


def _may_be_operator(word: Word) -> bool:
    return word.text is None and not word.head and not word.number


def _with_file_name(word: Word) -> Word:
    """Return a word of the command of `find`, with an unknown file name for `{}`."""
    if word.text is None or "{}" not in word.text:
        return word
    if word.text == "{}":
        return Word(("./", None))
    before, _, after = word.text.partition("{}")
    return Word((before, None, after.rpartition("{}")[2]))


_OPTIONS: Mapping[str, Callable[[_Reader, str, Word], None]] = {
    "!": _Reader._read_option_code,
    "&": _Reader._read_beginning,
    "%": _Reader._read_foreign,
    "~": _Reader._search,
    "@": _Reader._check_file,
    "=": _Reader._read_setting,
    "$": _Reader._set_variable,
}
"""What is done with the value of an option, by its kind."""

_OPERANDS: Mapping[str, Callable[[_Reader, _Call], None]] = {
    "command": _Reader._read_operands,
    "command?": _Reader._read_operands_or_stdin,
    "command-or-code": _Reader._read_command_or_code,
    "input": _Reader._read_input,
    "template": _Reader._read_template,
    "image": _Reader._read_image,
    "run": _Reader._read_uv_run,
    "find": _Reader._read_find,
    "targets": _Reader._read_targets,
    "bundled": _Reader._read_bundle,
    "nothing": _Reader._refuse,
    "code": _Reader._read_joined,
    "code?": _Reader._read_joined_or_stdin,
    "codes": _Reader._read_each,
    "bash": _Reader._read_bash,
    "shell": _Reader._read_shell,
    "similar-shell": _Reader._read_similar_shell,
    "other-shell": _Reader._read_other_shell,
    "shell-of-user": _Reader._read_user_shell,
    "searched": _Reader._search_operands,
    "script": _Reader._read_script,
    "stdin-code": _Reader._read_job,
    "trap": _Reader._read_trap,
    "aliases": _Reader._read_aliases,
    "names": _Reader._read_names,
    "declarations": _Reader._read_declarations,
    "test": _Reader._read_test,
    "arithmetic": _Reader._read_arithmetic,
    "foreign": _Reader._read_foreign_operand,
    "foreign-script": _Reader._read_interpreter,
    "foreign-input": _Reader._read_statements,
}
"""What is done with the operands of a program, by their kind."""
