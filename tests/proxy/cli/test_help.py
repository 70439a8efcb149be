"""The help of each command: what it does in a sentence, and examples that the command accepts."""

import shlex
import subprocess
import sys

import pytest
from generators.commands_reference import leaf_commands

from hookgate.proxy.cli.flags import CommandParser
from hookgate.proxy.cli.main import command_parser

PARSER = command_parser()
PARSER.fill_all()
COMMANDS = [pytest.param(each, id=each.prog) for each in leaf_commands(PARSER)]


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.id != "hookgate event"])
def test_help_is_a_sentence_with_examples(command: CommandParser) -> None:
    text = command.format_help()
    assert command.description
    assert command.description.endswith(".")
    assert command.examples
    assert all(f"\n  {example}\n" in text for example in command.examples)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_accepted_and_are_of_the_command(command: CommandParser) -> None:
    for example in command.examples:
        words = shlex.split(example)
        end = next((at for at, word in enumerate(words) if word in "<>|"), len(words))
        assert example.startswith(f"{command.prog} ") or example == command.prog
        PARSER.parse_args(words[1:end])


@pytest.mark.parametrize("command", COMMANDS)
def test_each_argument_is_explained(command: CommandParser) -> None:
    assert [action.dest for action in command._actions if not action.help and action.dest != "words"] == []


def test_flags_that_mean_the_same_have_the_same_help() -> None:
    helps: dict[str, set[str]] = {}
    for command in leaf_commands(PARSER):
        for action in command._actions:
            for flag in action.option_strings:
                helps.setdefault(flag, set()).add(f"{action.metavar}: {action.help}")
    shared = ("--admin", "--by", "--config", "--hooks", "--json", "--project", "--quiet", "--state", "--yes")
    same = {flag: texts for flag, texts in helps.items() if flag in shared and len(texts) > 1}
    assert same.keys() <= {"--admin", "--project"}, same  # those of `serve` and of `shim` are others


def test_help_imports_none_of_what_commands_need() -> None:
    program = (
        "import sys\n"
        "from hookgate.proxy.cli.main import command_parser\n"
        "command_parser().fill_all()\n"
        "print(*(name for name in ('aiohttp', 'sqlalchemy', 'hookgate.proxy.config') if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "\n"
