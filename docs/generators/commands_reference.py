"""Generate docs/commands.md from the parsers of the commands.

python docs/generators/commands_reference.py > docs/commands.md
"""

from collections.abc import Iterator

from hookgate.proxy.cli.flags import CommandParser, Subcommands
from hookgate.proxy.cli.main import command_parser

_INTRODUCTION = """\
# Commands

<!-- Made by: python docs/generators/commands_reference.py > docs/commands.md -->

    hookgate audit list outcome:denied since:yesterday --json | jq .

Each command explains its arguments with `--help`, which ends with examples. Lists and reports have `--json`,
for programs. Commands that show progress have `--quiet`, and those that ask for confirmation have `--yes`.
Progress and colors appear on terminals only; the variable `NO_COLOR` switches colors off there, too.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | the command has done what it says |
| 1 | it has failed, or found what it looks for, such as a broken chain, a `FAIL` of `doctor` or a secret |
| 2 | the command line has an unknown command or flag, or lacks one; `redact scan` cannot read a file |
| 130 | it was interrupted, as by Ctrl-C |
| 141 | the reader of its output, such as `head`, has gone |

The reason is in the output, or on stderr. `hookgate run` returns the exit code of the agent that it has
started, and `hookgate event` has [codes of its own](shim-commands.md), because agents read them.

## Completion

Shells complete commands, flags, files and fixed values with the script that `hookgate completion` prints for
`bash`, `zsh`, `fish` or `powershell`:

    hookgate completion bash > ~/.local/share/bash-completion/completions/hookgate
    hookgate completion fish > ~/.config/fish/completions/hookgate.fish

For zsh, write it to a file `_hookgate` in a folder of `$fpath`. Make it again after an update.

## All commands
"""


def commands_reference() -> str:
    """Return the page as Markdown."""
    parser = command_parser()
    parser.fill_all()
    rows = [f"| `{each.prog}` | {_text(each)} |" for each in leaf_commands(parser)]
    return "\n".join([_INTRODUCTION, "| command | what it does |", "| --- | --- |", *rows, ""])


def _text(command: CommandParser) -> str:
    examples = (f"`{example.replace('|', chr(92) + '|')}`" for example in command.examples)
    return "<br>".join([command.description or "", *examples])


def leaf_commands(parser: CommandParser) -> Iterator[CommandParser]:
    """Yield the parsers of the commands below one that have none below them."""
    for action in parser._actions:
        if isinstance(action, Subcommands):
            for choice in action._get_subactions():  # without other names of the same command
                command = action.choices[choice.dest]
                yield from [*leaf_commands(command)] or [command]


if __name__ == "__main__":
    print(commands_reference(), end="")
