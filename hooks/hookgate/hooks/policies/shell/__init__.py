"""Reads shell command lines to find the programs that they would run, without running them."""

from hookgate.hooks.policies.shell.commands import CommandLine, read_line, read_lines
from hookgate.hooks.policies.shell.words import Word

__all__ = ["CommandLine", "Word", "read_line", "read_lines"]
