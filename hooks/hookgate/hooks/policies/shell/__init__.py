"""Reads shell command lines to find the programs that they would run, without running them."""

from hookgate.hooks.policies.shell.commands import CommandLine, read_arguments, read_line, read_lines
from hookgate.hooks.policies.shell.parsing import require_parser
from hookgate.hooks.policies.shell.words import Word

__all__ = ["CommandLine", "Word", "read_arguments", "read_line", "read_lines", "require_parser"]
