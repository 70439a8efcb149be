"""Prints what was found in files: as text, JSON or SARIF. None of them contains a secret."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from hookgate.proxy import __version__
from hookgate.proxy.cli.redact.scanning import FoundSecret, SkippedFile

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_line(found: FoundSecret) -> str:
    """Return a line about a finding: its place, what it is, and the rule."""
    rule = f"  ({found.rule})" if found.rule else ""
    return f"{found.file}:{found.line}:{found.column}: [{found.kind}], {found.length} characters{rule}"


def as_json(findings: Sequence[FoundSecret], skipped: Sequence[SkippedFile], files: int) -> str:
    """Return all findings as one JSON object."""
    document = {
        "files": files,
        "findings": [{**asdict(each), "masked": f"[{each.kind}]"} for each in findings],
        "skipped": [asdict(each) for each in skipped],
    }
    return json.dumps(document, indent=2, ensure_ascii=True)


def as_sarif(findings: Sequence[FoundSecret], skipped: Sequence[SkippedFile]) -> str:
    """Return all findings as a SARIF log, version 2.1.0. Skipped files are notifications of the run."""
    rules = {_rule_id(each): each for each in findings}
    places = {name: index for index, name in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "hookgate",
                "version": __version__,
                "rules": [_rule(name, each) for name, each in rules.items()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, places) for each in findings],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(each) for each in skipped],
            }
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=True)


def _rule_id(found: FoundSecret) -> str:
    return found.rule or found.kind


def _rule(name: str, found: FoundSecret) -> dict[str, Any]:
    source = f"the rule {found.rule}" if found.rule else "a built-in detector"
    return {"id": name, "shortDescription": {"text": f"{found.kind}, found by {source}"}}


def _result(found: FoundSecret, places: dict[str, int]) -> dict[str, Any]:
    name = _rule_id(found)
    region = {
        "startLine": found.line,
        "startColumn": found.column,
        "endLine": found.end_line,
        "endColumn": found.end_column,
    }
    return {
        "ruleId": name,
        "ruleIndex": places[name],
        "level": "error",
        "message": {"text": f"{found.kind}: {found.length} characters that redaction would replace"},
        "locations": [{"physicalLocation": {**_artifact(found.file), "region": region}}],
    }


def _notification(skipped: SkippedFile) -> dict[str, Any]:
    return {
        "level": "note",
        "message": {"text": f"not read: {skipped.reason}"},
        "locations": [{"physicalLocation": _artifact(skipped.file)}],
    }


def _artifact(file: str) -> dict[str, Any]:
    return {"artifactLocation": {"uri": quote(file.encode(errors="surrogateescape"))}}
