"""The pictures in docs/images, taken of a gateway that is called for the purpose: `make pictures`."""

import asyncio
import random
import sys
import tempfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from small_png import with_palette
from support.gateway.approving import asked_call, now
from support.gateway.browser import Scheme, browsing, go, running_browser
from support.gateway.loopback import runs, says
from support.gateway.panel import Paneled, panel_gateway
from support.operating.receivers import SECRET
from support.wire import SSE, UNARY, post

from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.observe.metrics import Traffic
from hookgate.proxy.store.database import open_approvals

FOLDER = Path(__file__).parent / "images"
LOOKS: dict[str, tuple[int, int, Scheme]] = {
    "light": (1600, 1000, "light"),
    "dark": (1600, 1000, "dark"),
    "narrow": (360, 780, "light"),
}
MAX_BYTES = 150_000

ASKED = (
    "Please tell ada@example.org that the deploy on Friday is off.\nKeep it short, and sign with my name.",
    "What does the build log say about the failing test?",
    "Summarize the open incidents of this week in three lines.",
    "Who is on call tonight? My number is +44 20 7946 0018.",
    "Show me the private key of the staging host.",
)
MINUTE = 60_000
HOUR = 60 * MINUTE


def masks(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that takes a mail address out."""
    messages = document["llm_request"]["messages"]
    for message in messages:
        message["content"] = message["content"].replace("ada@example.org", "[EMAIL]")
    return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}


def guards(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that denies questions for keys."""
    asked = str(document["llm_request"]["messages"])
    return (
        {"decision": "deny", "reason": "Private keys stay where they are."} if "private key" in asked else {}
    )


HOOKS: dict[str, Any] = {
    "BeforeModel": [
        runs(masks, name="mask-mail", description="Takes mail addresses out of requests"),
        {
            "type": "builtin",
            "builtin": "redact",
            "name": "personal",
            "mode": "observe",
            "options": {"detect": ["personal"]},
            "description": "Tried out before it masks",
        },
        {
            "type": "builtin",
            "builtin": "limits",
            "name": "budget",
            "options": {"rules": [{"per": "team", "window": "day", "cost": 0.001}]},
        },
        runs(guards, name="deny-private-keys", description="Denies questions for private keys"),
    ],
    "AfterModel": [
        {
            **says({"decision": "deny"}),
            "name": "tone",
            "mode": "observe",
            "description": "Tried out before it decides",
        },
        {"type": "command", "name": "glossary", "command": "exit 3", "description": "House style"},
    ],
}


APPROVALS: dict[str, Any] = {
    "approvals": {"mode": "ticket", "people": [{"name": "bob", "receiver": "bob"}], "secret": SECRET},
    "alerts": {"receivers": [{"name": "bob", "url": "http://127.0.0.1:9/", "secret": SECRET}]},
}

KEYS = {
    name: {"sha256": sha256(f"key-{number}".encode()).hexdigest(), "team": team}
    for number, (name, team) in enumerate({"alice": "search", "ci": "platform", "bob": "search"}.items())
}


async def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    # A folder of a plain name: it is seen in the pictures.
    with tempfile.TemporaryDirectory(prefix="hookgate-") as folder:
        async with panel_gateway(
            Path(folder), HOOKS, **APPROVALS, audit={"content": "full"}, keys=KEYS, store=True
        ) as gateway:
            played(gateway.panel.api.traffic)
            receipt = await called(gateway)
            with closing(ApprovalTable(open_approvals(None, Path(folder) / "state"))) as table:
                table.ask(asked_call(), now(), HOUR, 1)
            await asyncio.sleep(1)  # the audit writes ends behind calls
            for look in LOOKS:
                await pictures(gateway, receipt, look)


async def called(gateway: Paneled) -> str:
    """Make some calls; the receipt of the one to show."""
    shown = ""
    for number in range(24):
        asked = ASKED[number * 3 % len(ASKED)]
        body = {"contents": [{"role": "user", "parts": [{"text": asked}]}]}
        headers = {
            "x-goog-api-key": f"key-{number % 3}",
            "x-hookgate-session": f"review-{1 + number % 6}",
            "user-agent": "google-genai-sdk/1.40.0 gl-python/3.11",
        }
        answer = await post(gateway.url, SSE if number % 4 == 3 else UNARY, body, headers)
        shown = answer.headers["x-hookgate-receipt"] if asked == ASKED[0] and number % 4 != 3 else shown
    return shown


def played(traffic: Traffic) -> None:
    """An hour of traffic, so that the chart of latency has something to show."""
    chance, until = random.Random(7), traffic.now()  # noqa: S311  # a picture needs no secrets
    told = traffic.now
    for ago in range(59, 0, -1):
        traffic.now = lambda ago=ago: until - ago * MINUTE  # type: ignore[misc]  # the clock of a picture
        for _ in range(chance.randint(18, 46)):
            denied = chance.random() < 0.07
            outcome = "denied" if denied else "failed" if chance.random() < 0.02 else "answered"
            took = 4.0 if denied else chance.lognormvariate(6.4, 0.6)
            usage = {"input_tokens": chance.randint(200, 3000), "output_tokens": chance.randint(20, 400)}
            traffic.add({"outcome": outcome, "timings": {"total_ms": took}, "usage": usage, "bypasses": 0})
    traffic.now = told
    traffic.since = until - 59 * MINUTE


async def pictures(gateway: Paneled, receipt: str, look: str) -> None:
    """One picture of each view."""
    width, height, scheme = LOOKS[look]
    views = {
        "overview": "#/",
        "calls": "#/calls",
        "call": f"#/calls/{receipt}",
        "sessions": "#/sessions",
        "session": "#/sessions/review-1?key=alice",
        "spend": "#/spend",
        "findings": "#/findings",
        "hooks": "#/hooks",
        "policy": "#/policy",
        "approvals": "#/approvals",
    }
    async with (
        running_browser() as browser,
        browsing(browser, gateway.link, width=width, height=height, scheme=scheme) as page,
    ):
        blank = await page.context.new_page()
        for name, route in views.items():
            await page.bring_to_front()
            await go(page, route)
            if name == "call" and width < 1000:
                await page.get_by_text("Changes by hook").scroll_into_view_if_needed()
            await page.wait_for_timeout(300)
            path = FOLDER / f"panel-{name}-{look}.png"
            path.write_bytes(
                await with_palette(blank, await page.screenshot(full_page=name == "call" and width > 1000))
            )
            if path.stat().st_size > MAX_BYTES:
                raise SystemExit(f"{path} is larger than {MAX_BYTES} bytes")


if __name__ == "__main__":
    asyncio.run(main())
