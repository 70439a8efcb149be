"""Generate docs/routes.md from the route table.

python docs/generators/routes_reference.py > docs/routes.md
"""

from itertools import groupby

from hookgate.proxy.routes.table import TABLE, Row
from hookgate.translator import ITEM_METHODS

_INTRODUCTION = """\
# Routes

<!-- Made by: python docs/generators/routes_reference.py > docs/routes.md -->

A call of `POST /v1beta/models/gemini-2.5-flash:generateContent` is judged by the hooks; one of
`GET /v1beta/models` is forwarded; `POST /v1beta/corpora` is in no table of this page and is answered with
403. [The gateway](gateway.md#routes) describes how paths are matched, and [Methods of SDKs](sdk-methods.md)
which methods of Google's SDKs are served.

| treatment | meaning |
|---|---|
| judged | Hooks see each request and each answer. |
| judged, input only | BeforeModel hooks see the request's texts. The answer has no text of a model. |
| forwarded | Nothing is generated, and the request contains little or no text. |
| files | 403 unless `routes.files` is `"forward"`, or `"judge"` for uploads of text. |
| `predict`, another group | 403 unless `routes.unhooked` lists it. Then calls are forwarded unjudged. |
| live | As the group `live`; with `routes.live = "judge"`, sessions of `BidiGenerateContent` are judged. |
| event, receipt | A service of the gateway itself. |

`keys` is the group that an [issued key](keys.md) must allow. Routes of Google's APIs without a group cannot
be called with such a key.

Every path is also accepted behind a session prefix, `/s/{session}`. `{models}` is `models` or `tunedModels`;
`{operations}` is `operations`, alone or below a model or a file search store; `{agents}` is `agents`,
`triggers`, `webhooks`, `environments`, `voices`, `credentials` or `decisions`; `{rest}` is empty or more
segments; `{place}` is `projects/{project}/locations/{location}`.
"""

_OWN = "/hookgate/"
_SECTIONS = {
    "gemini": "## Gemini API\n\n`{v}` is `v1`, `v1beta` or `v1alpha`.\n",
    "vertex": "## Vertex AI\n\n`{v}` is `v1` or `v1beta1`.\n",
    "code_assist": "## Code Assist\n\n`{v}` is `v1internal`.\n",
    _OWN: "## Services of the gateway\n\n"
    "[Events](events.md), [events of agents' own hooks](agent-hooks.md),\n"
    "[checks of other gateways](guardrails.md#litellm-asks-hookgate) and [receipts](receipts.md).\n",
}
_INPUTS = ITEM_METHODS - {"batchGenerateContent"}
_HEADER = ["method", "path", "operations", "treatment", "keys"]


def routes_reference() -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    for section, rows in groupby(TABLE, _section):
        cells = list(dict.fromkeys(tuple(_cells(row)) for row in rows))
        parts += [_SECTIONS[section], _table([_HEADER, ["---"] * len(_HEADER), *map(list, cells)])]
    return "\n".join(parts)


def _section(row: Row) -> str:
    return _OWN if row.template.startswith(_OWN) else row.api


def _cells(row: Row) -> list[str]:
    path = row.template.replace("projects/{project}/locations/{location}", "{place}")
    treatment = _treatment(row)
    note = {verb: " (input only)" for verb in _INPUTS if treatment == "judged"}
    verbs = ", ".join(f"`{verb}`{note.get(verb, '')}" for verb in row.verbs)
    group = f"`{row.group}`" if row.group else ""
    return [", ".join(row.methods), f"`{path}`", verbs, treatment, group]


def _treatment(row: Row) -> str:
    if row.kind == "tunnel":
        return "live"
    if row.unhooked:
        return f"`{row.unhooked}`"
    if row.writes_files:
        return "files"
    return f"{row.kind}, input only" if row.verbs and _INPUTS.issuperset(row.verbs) else row.kind


def _table(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


if __name__ == "__main__":
    print(routes_reference(), end="")
