"""Each method of @google/genai's client has the treatment that the docs give for the Python one of its name.

One process calls them all (tests/e2e/node/methods.mjs). What differs is in the docs, too.
"""

import re

from support.clients.node import start_script
from support.gateway.routes import treatment
from support.places import DOCS

GROUPS = ("agents", "credentials", "environments", "triggers", "voices", "webhooks")
"""Collections that the docs give as a whole; tests/proxy/routes/test_sdk_methods.py has their paths."""


def documented(heading: str) -> dict[str, list[str]]:
    """The treatments of methods in a table of docs/sdk-methods.md: of the Gemini API and of Vertex AI."""
    section = (DOCS / "sdk-methods.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \|$", section, re.MULTILINE)
    return {method: [gemini, vertex] for method, gemini, vertex in rows}


def python_name(method: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", method)


async def test_the_docs_say_what_becomes_of_each_method() -> None:
    ran = await start_script("methods.mjs")
    assert ran.exit_code == 0, ran.stderr
    sent = {line["method"]: line["requests"] for line in ran.lines}
    called = {method: requests for method, requests in sent.items() if requests is not None}
    collections = {method.partition(".")[0] for method in sent.keys() - called.keys()}
    assert collections == {*GROUPS, "live"}
    treatments = {
        method: [treatment(*request) if request else "–" for request in requests]
        for method, requests in called.items()
    }
    python, different = documented("Methods of google-genai"), documented("Methods of @google/genai")
    assert different == {
        method: found for method, found in treatments.items() if found != python.get(python_name(method))
    }
