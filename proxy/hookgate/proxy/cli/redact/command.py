"""`hookgate redact rules | scan | allow`: lists what redaction finds, finds it in files, and lets it stay."""

import argparse
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.policy import Replacer
from hookgate.hooks.policies.redact.rules import read_rules
from hookgate.hooks.policies.secret_key import key_in
from hookgate.hooks.settings import BuiltinConfig, Hook
from hookgate.proxy.cli.redact.allowing import allow
from hookgate.proxy.cli.redact.report import as_json, as_line, as_sarif
from hookgate.proxy.cli.redact.scanning import FileScanner, FoundSecret, SkippedFile, files_below
from hookgate.proxy.cli.terminal import print_table
from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import state_folder
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.policy import ConfiguredHooks, read_all_sources, read_configured_hooks

_FOUND, _TROUBLE = 1, 2
_DEFAULT = "default options"


def run_redact(args: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ValueError for wrong settings and rules."""
    if args.redact_command == "rules":
        return _list_rules(_configured(args), as_json=args.json)
    if args.redact_command == "allow":
        return allow(list(_redacting(_read_hooks(args))), args.hash, args.name)
    try:
        state = state_folder(read_config(vars(args)).config.hooks)
        return _scan(_configured(args)[0], args, state)
    except (ValueError, OSError) as error:
        print(f"hookgate: {escape_controls(str(error))}", file=sys.stderr)
        return _TROUBLE


@dataclass(frozen=True, slots=True)
class _Configured:
    """The options of hooks that use the policy `redact`."""

    hook: str
    options: RedactOptions


def _read_hooks(args: argparse.Namespace) -> ConfiguredHooks:
    return read_configured_hooks(read_all_sources(read_config(vars(args)).config))


def _redacting(hooks: ConfiguredHooks) -> Iterator[Hook]:
    """Yield the hooks that use the policy `redact`, and may run."""
    for hook in hooks.loaded.configuration.hooks():
        is_redact = isinstance(hook.config, BuiltinConfig) and hook.config.builtin == "redact"
        if is_redact and hooks.trust.trusts(hook):
            yield hook


def _configured(args: argparse.Namespace) -> list[_Configured]:
    """Return the different options of all hooks that redact, or else the default ones."""
    more = read_rules(args.rule_files, Path.cwd())
    configured: list[_Configured] = []
    seen = []
    for hook in _redacting(_read_hooks(args)):
        values = getattr(hook.config, "options", {})
        if (values, hook.root) in seen:
            continue
        seen.append((values, hook.root))
        options = read_options(RedactOptions, values, hook.root)
        configured.append(_Configured(f"{hook.name} ({hook.source})", options))
    configured = configured or [_Configured(_DEFAULT, RedactOptions())]
    return [
        _Configured(each.hook, each.options.model_copy(update={"rules": (*each.options.rules, *more)}))
        for each in configured
    ]


@dataclass(frozen=True, slots=True)
class _Row:
    """A detector or a rule."""

    kind: str
    group: str
    source: str
    """`built-in`, `settings`, or a file and the name of the rule."""
    state: str
    """`on`, or why it is not used."""


def _list_rules(configured: list[_Configured], *, as_json: bool) -> int:
    """Print what the options of each hook detect."""
    if as_json:
        document = [
            {"hook": each.hook, "rules": [asdict(row) for row in _rows(each.options)]} for each in configured
        ]
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    for each in configured:
        print(f"{each.hook}:")
        print_table(
            ("kind", "group", "from", "state"),
            ((row.kind, row.group, row.source, row.state) for row in _rows(each.options)),
        )
    return 0


def _rows(options: RedactOptions) -> Iterator[_Row]:
    """Yield a row for each kind of each source, and one for each rule."""
    detectors = options.detectors()
    yield from dict.fromkeys(_Row(each.kind, each.group, each.source, "on") for each in detectors)
    for each in (unusable for rules in options.rules for unusable in rules.unusable):
        yield _Row("-", "rules", f"{each.source}: {each.id}", f"not used: {each.reason}")
    for rule in (rule for rules in options.rules for rule in rules.rules):
        if rule.table.path:
            scanned = "only in files with certain paths, so not in calls"
            yield _Row("-", "rules", f"{rule.source}: {rule.table.id}", scanned)


def _scan(configured: _Configured, args: argparse.Namespace, state: Path) -> int:
    """Print what is found in files. Returns the exit code. Raises ValueError if a path does not exist."""
    paths: list[str] = args.path
    if missing := next((path for path in paths if path != "-" and not Path(path).exists()), None):
        raise ValueError(f"{missing}: does not exist; check the path")
    key = key_in(state) if configured.options.allow else b""  # findings that stay are known by their hashes
    scanner = FileScanner(configured.options, Replacer(configured.options, key).replacer(None))
    findings: list[FoundSecret] = []
    skipped: list[SkippedFile] = []
    files = 0
    for path in paths:
        for file in [None] if path == "-" else files_below(Path(path)):
            files += 1
            for found in scanner.scan_text("stdin", _stdin()) if file is None else scanner.scan(file):
                if isinstance(found, SkippedFile):
                    skipped.append(found)
                    continue
                findings.append(found)
                if not (args.json or args.sarif):
                    print(as_line(found))
    if args.json:
        print(as_json(findings, skipped, files))
    elif args.sarif:
        print(as_sarif(findings, skipped))
    for each in skipped:
        print(f"{escape_controls(each.file, keep_lines=False)}: not read: {each.reason}", file=sys.stderr)
    print(f"{len(findings)} found in {files} files by {configured.hook}", file=sys.stderr)
    return _FOUND if findings else 0


def _stdin() -> io.TextIOWrapper:
    return io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="surrogateescape", newline="")
