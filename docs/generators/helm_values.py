"""Generate docs/helm-values.md from the comments in the values of the Helm chart.

python docs/generators/helm_values.py > docs/helm-values.md
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "hookgate"

_INTRODUCTION = """\
# Values of the Helm chart

<!-- Made by: python docs/generators/helm_values.py > docs/helm-values.md -->

[Deploying](deploying.md#kubernetes) describes how to install the chart. These are its values, with the
defaults of [values.yaml](../deploy/helm/hookgate/values.yaml). Give others in a file of your own
(`--values FILE`): Helm joins its mappings with the defaults, but replaces lists. `null` removes a default.

    image: { repository: registry.example.com/hookgate, tag: 0.1.0 }
    hooks:
      settings.json: |
        {"hooks": {"BeforeModel": [{"hooks": [{"type": "command", "command": "python3 /hooks/guard.py"}]}]}}
    config:
      limits: { drain_delay: 30 }
      metrics: { models: [gemini-3.8-flash] }
    networkPolicy:
      clients: { from: [{ namespaceSelector: { matchLabels: { agents: "true" } } }] }
      egress:
        collector: { ports: [{ port: 4318 }], to: [{ namespaceSelector: {} }] }

Helm refuses values that [values.schema.json](../deploy/helm/hookgate/values.schema.json) does not allow, and
names the place. For `config` this schema contains all settings of [hookgate.toml](configuration.md):

    $ helm lint deploy/helm/hookgate --set config.limits.drain_dealy=30
    …
    - at '/config/limits': additional properties 'drain_dealy' not allowed
"""


@dataclass(frozen=True)
class Value:
    """A value that has a comment in values.yaml: the keys to it, its default, and the comment."""

    keys: tuple[str, ...]
    default: Any
    comment: str

    @property
    def name(self) -> str:
        return ".".join(key.replace(".", "\\.") for key in self.keys)


def values() -> list[Value]:
    """Return every value with a comment, in the order of the file."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    return list(_values(yaml.compose(text, yaml.SafeLoader), text.splitlines(), yaml.safe_load(text), ()))


def _values(node: yaml.Node, lines: list[str], value: Any, keys: tuple[str, ...]) -> Iterator[Value]:
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return
    for key, inner in node.value:
        path = (*keys, key.value)
        if comment := _comment(lines[: key.start_mark.line]):
            yield Value(path, value[key.value], comment)
        yield from _values(inner, lines, value[key.value], path)


def _comment(before: list[str]) -> str:
    """Return the comment at the end of some lines."""
    lines = takewhile(lambda line: line.startswith("#"), (line.strip() for line in reversed(before)))
    return " ".join(line.removeprefix("#").strip() for line in reversed([*lines]))


def helm_values() -> str:
    """Return the page as Markdown."""
    found = values()
    parents = {value.keys[:length] for value in found for length in range(1, len(value.keys))}
    rows = [[f"`{value.name}`", _default(value, parents), value.comment] for value in found]
    header = ["value", "default", "meaning"]
    table = [f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows]]
    return "\n".join([_INTRODUCTION, *table, ""])


def _default(value: Value, parents: set[tuple[str, ...]]) -> str:
    return "as follows" if value.keys in parents else f"`{json.dumps(value.default)}`"


if __name__ == "__main__":
    print(helm_values(), end="")
