"""Programs that run other programs, and how their arguments name these. It does no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hookgate.hooks.policies.shell.words import Word, literal


class UnknownOptionError(Exception):
    """An option that is not in the table, so that it is unknown whether the next word is its value."""


class DynamicWordError(Exception):
    """A word that determines the program, and that is known only when the command runs."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The command-line syntax of a program that runs another program.

    Options are written as for getopt: with a `:` after those with a value, a `!` after those whose value is
    a shell command, and a `?` after those with an optional value in the same word.
    """

    short: str = ""
    long: tuple[str, ...] = ()
    operands: int = 0
    """The number of its own arguments before the program."""
    assignments: bool = False
    """Whether words such as `A=1` may precede the program."""
    joined: bool = False
    """Whether the remaining words are joined and passed to a shell."""
    valued: bool = False
    """Whether options that are not listed have a value."""
    starts_shell: bool = False
    """Whether it starts a shell if no program is named."""


WRAPPERS: Mapping[str, Wrapper] = {
    "sudo": Wrapper(
        "ABbEeHiKklNnPSsVvC:D:g:h:p:R:r:T:t:U:u:",
        (
            *("askpass", "background", "bell", "edit", "set-home", "login", "remove-timestamp", "list"),
            *("reset-timestamp", "non-interactive", "preserve-env", "preserve-groups", "stdin", "shell"),
            *("validate", "chdir:", "close-from:", "group:", "host:", "prompt:", "chroot:", "role:"),
            *("command-timeout:", "type:", "other-user:", "user:"),
        ),
        assignments=True,
    ),
    "doas": Wrapper("Lnsa:C:u:"),
    "env": Wrapper(
        "i0vu:C:S!",
        ("ignore-environment", "null", "debug", "unset:", "chdir:", "split-string!"),
        assignments=True,
    ),
    "timeout": Wrapper(
        "fpvk:s:", ("foreground", "preserve-status", "verbose", "kill-after:", "signal:"), operands=1
    ),
    "nice": Wrapper("0123456789n:", ("adjustment:",)),
    "ionice": Wrapper("tc:n:p:P:u:", ("ignore", "class:", "classdata:")),
    "nohup": Wrapper(),
    "setsid": Wrapper("cfw", ("ctty", "fork", "wait")),
    "time": Wrapper(
        "apvqf:o:", ("append", "portability", "verbose", "quiet", "format:", "output:"), assignments=True
    ),
    "!": Wrapper(assignments=True),
    "exec": Wrapper("cla:"),
    "command": Wrapper("p"),
    "builtin": Wrapper(),
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "stdbuf": Wrapper("i:o:e:", ("input:", "output:", "error:")),
    "chroot": Wrapper("", ("userspec:", "groups:", "skip-chdir"), operands=1, starts_shell=True),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "watch": Wrapper(
        "bcegprtvwxd?n:q:s:",
        (
            *("beep", "color", "errexit", "chgexit", "precise", "no-rerun", "no-title", "no-wrap", "exec"),
            *("differences?", "interval:", "equexit:"),
        ),
        joined=True,
    ),
    "xargs": Wrapper(
        "0oprtxi?e?l?a:d:E:I:L:n:P:s:",
        (
            *("null", "open-tty", "interactive", "no-run-if-empty", "verbose", "exit", "replace?", "eof?"),
            *(
                "max-lines?",
                "show-limits",
                "arg-file:",
                "delimiter:",
                "max-args:",
                "max-procs:",
                "max-chars:",
            ),
        ),
    ),
    "ssh": Wrapper(
        "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:",
        operands=1,
        joined=True,
        starts_shell=True,
    ),
}
"""Programs whose options are known, so that the program after them is found exactly."""

CONTAINER = Wrapper(
    "ditTPq",
    (
        *("detach", "interactive", "tty", "rm", "privileged", "init", "read-only", "no-healthcheck", "quiet"),
        *("publish-all", "oom-kill-disable", "sig-proxy?", "no-deps", "build", "remove-orphans", "no-TTY"),
        *("service-ports", "use-aliases", "quiet-pull", "disable-content-trust?", "stdin", "pass-stdin"),
    ),
    operands=1,
    valued=True,
)
"""The syntax after `docker run`, `docker exec`, `kubectl exec` and similar commands."""

CONTAINER_PROGRAMS = frozenset({"docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose"})

LOOSE = frozenset(
    {
        *(
            "asdf",
            "autossh",
            "bundle",
            "bwrap",
            "cgexec",
            "chronic",
            "chrt",
            "conda",
            "coproc",
            "cpulimit",
        ),
        *(
            "dbus-run-session",
            "genv",
            "gtimeout",
            "gxargs",
            "mosh",
            "prlimit",
            "run0",
            "setpriv",
            "systemd-inhibit",
        ),
        *("direnv", "dotenv", "dumb-init", "eatmydata", "entr", "faketime", "fakeroot", "fd", "fdfind"),
        *("firejail", "flock", "gdb", "gosu", "hatch", "ltrace", "mise", "nsenter", "nix-shell", "npx"),
        *("numactl", "parallel", "pdm", "perf", "pipenv", "pkexec", "poetry", "proot", "proxychains"),
        *("proxychains4", "rlwrap", "rtk", "runuser", "script", "setarch", "sg", "sshpass", "strace"),
        *("su", "su-exec", "systemd-run", "taskset", "tini", "torsocks", "unbuffer", "unshare", "uv"),
        *("valgrind", "xvfb-run"),
    }
)
"""Programs whose options are not known: any word that is not an option may be the program that they run."""

CODE_OPTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("su", "runuser", "sg", "script", "flock"), frozenset({"-c", "--command", "--session-command"})
    ),
    "nix-shell": frozenset({"--run", "--command"}),
}
"""Options whose value is a shell command, at any position."""


@dataclass(slots=True)
class Arguments:
    """The parsed arguments of a wrapper."""

    options: list[tuple[str, Word]] = field(default_factory=list)
    """Its options without dashes, each with its value, which is empty if it has none."""
    scripts: list[Word] = field(default_factory=list)
    """The values that are shell commands."""
    command: tuple[Word, ...] = ()
    """The command that it runs, the program first."""

    def value(self, *names: str) -> Word | None:
        """Return the value of the first option with one of these names, or None."""
        return next((value for name, value in self.options if name in names), None)


def take_apart(wrapper: Wrapper, words: Sequence[Word]) -> Arguments:
    """Parse a wrapper's arguments to find the command that it runs.

    Raises UnknownOptionError for options that are not in the table, and DynamicWordError if an expansion
    determines which of the words is the program.
    """
    arguments = Arguments()
    at = _parse_options(wrapper, words, 0, arguments)
    for _ in range(wrapper.operands):
        if at < len(words) and words[at].splits:
            raise DynamicWordError
        at += 1
        if wrapper.joined:  # ssh accepts options after an operand as well
            at = _parse_options(wrapper, words, at, arguments)
    while wrapper.assignments and at < len(words) and _is_assignment(words[at]):
        at += 1
    arguments.command = tuple(words[at:])
    return arguments


def _is_assignment(word: Word) -> bool:
    if "=" in word.head and word.splits:
        raise DynamicWordError
    return "=" in word.head


def _parse_options(wrapper: Wrapper, words: Sequence[Word], at: int, arguments: Arguments) -> int:
    kinds = dict(_letters(wrapper.short)) | {name.rstrip(":!?"): _kind(name) for name in wrapper.long}
    while at < len(words) and words[at].may_be_option:
        word, at = words[at], at + 1
        if word.text == "--":
            break
        if word.text == "-":
            continue
        if not word.head.startswith("-"):
            raise DynamicWordError
        at = _parse_option(wrapper, kinds, word, words, at, arguments)
    return at


def _parse_option(  # noqa: PLR0913, PLR0917  # the state of the loop above
    wrapper: Wrapper,
    kinds: Mapping[str, str],
    word: Word,
    words: Sequence[Word],
    at: int,
    arguments: Arguments,
) -> int:
    """Parse one word of options, and the value after it. Returns the position after both."""
    for name, attached in _options_in(word, kinds, wrapper):
        kind = kinds.get(name, ":" if wrapper.valued else None)
        if kind is None:
            raise UnknownOptionError
        value = attached
        if kind in ":!" and kind and attached is None:
            if at >= len(words):
                raise DynamicWordError
            value, at = words[at], at + 1
        if value is not None and value.splits:
            raise DynamicWordError
        arguments.options.append((name, value or literal("")))
        if kind == "!" and value is not None:
            arguments.scripts.append(value)
    return at


def _options_in(word: Word, kinds: Mapping[str, str], wrapper: Wrapper) -> Iterator[tuple[str, Word | None]]:
    """Yield the options in one word, each with its value in the same word, if any."""
    if word.head.startswith("--"):
        name, equals, value = word.head[2:].partition("=")
        if not equals and word.text is None:
            raise DynamicWordError
        yield name, Word((value, *word.parts[1:]), word.splits) if equals else None
        return
    for place, letter in enumerate(word.head[1:], 2):
        kind = kinds.get(letter, ":" if wrapper.valued else "")
        rest = Word((word.head[place:], *word.parts[1:]), word.splits)
        if kind:
            empty = rest.text is not None and not rest.text
            yield letter, None if empty else rest
            return
        yield letter, None
    if word.text is None:
        raise DynamicWordError


def _letters(short: str) -> Iterator[tuple[str, str]]:
    for place, letter in enumerate(short):
        if letter not in ":!?":
            yield letter, _kind(short[place : place + 2])


def _kind(option: str) -> str:
    return option[-1] if option[-1] in ":!?" else ""
