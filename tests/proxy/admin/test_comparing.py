"""What another policy would have decided of the calls of a range, which the panel finds out on the side."""

from pathlib import Path
from typing import Any

import pytest
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.wire import Answer, post

CHANGES = {"X-Hookgate-Panel": "1", **BEARER}
KEPT = {"content": "full"}


async def compare(gateway: Paneled, **body: Any) -> Answer:
    return await post(gateway.admin, "/api/hooks/compare", {"q": "", **body}, CHANGES)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"q": "tem:x"}, 400, "there is no word 'tem'; did you mean team?"),
        ({"q": "sort:cost"}, 400, "q: sort: the newest calls are compared; leave it out"),
        ({"q": 1}, 400, "q: must be a query, as a text"),
        ({"revision": "1"}, 400, "revision: must be the number of a revision, or null"),
        ({"revision": True}, 400, "revision: must be the number of a revision, or null"),
        ({"revision": 1}, 404, "No revision 1 of a policy was pushed."),
    ],
)
async def test_a_comparison_that_is_not_possible_says_why(
    body: dict[str, Any], status: int, said: str, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        answer = await compare(gateway, **body)
    assert (answer.status, said in answer.error["message"]) == (status, True), answer.body


async def test_without_the_audit_there_is_nothing_to_compare(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        answer = await compare(gateway)
    assert (answer.status, "Set audit.enabled to true." in answer.error["message"]) == (400, True)
