"""Reading shell command lines: which programs they would run, as far as that can be known beforehand."""

from hookgate.hooks.policies.shell.commands import CommandLine, read_arguments, read_line
from hookgate.hooks.policies.shell.parsing import require_parser
from hookgate.hooks.policies.shell.words import Word

__all__ = ["CommandLine", "Word", "read_arguments", "read_line", "require_parser"]
