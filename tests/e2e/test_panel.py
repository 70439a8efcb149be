"""The panel in a real browser: what an operator sees, does and hears."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect
from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.gateway.browser import VIEWS, Scheme, browsing, find, go, running_browser, violations
from support.gateway.loopback import runs, says, write_settings
from support.gateway.panel import TOKEN, Paneled, panel_gateway
from support.wire import UNARY, Answer, post, prompt

from hookgate.hooks import SessionContext
from hookgate.proxy.admin.access import panel_link

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

KEPT = {"content": "full"}

CRAFTED = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
    "<style>*{display:none}</style>{{1+1}} &lt;b&gt; \u202egnp.exe\u2066 \u0007 "
    "</textarea><a href='javascript:1'>x</a>"
)


def masks(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that masks a mail address."""
    messages = document["llm_request"]["messages"]
    for message in messages:
        message["content"] = message["content"].replace("ada@example.org", "[EMAIL]")
    return {"hookSpecificOutput": {"llm_request": {"messages": messages}}}


def guards(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that denies one word."""
    said = str(document["llm_request"]["messages"])
    return {"decision": "deny", "reason": f"Not here: {CRAFTED}"} if "forbidden" in said else {}


HOOKS = {
    "BeforeModel": [
        runs(masks, name="mask-mail", description="Takes mail addresses out"),
        runs(guards, name="guard"),
    ],
    "AfterModel": [
        {**says({}), "name": "watch", "mode": "observe"},
        {"type": "command", "name": "broken", "command": "exit 1"},
    ],
}


async def called(gateway: Paneled, text: str = "hi", session: str = "s-1", key: str = "k") -> Answer:
    body = prompt(text)
    return await post(gateway.url, UNARY, body, {"x-goog-api-key": key, "x-hookgate-session": session})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@asynccontextmanager
async def open_panel(
    browser: Browser,
    folder: Path,
    *,
    width: int = 1280,
    scheme: Scheme = "light",
    signed_in: bool = True,
    **gateway: Any,
) -> AsyncIterator[tuple[Paneled, Page]]:
    """A gateway with calls behind it, and its panel in a browser."""
    async with panel_gateway(folder, HOOKS, **{"audit": KEPT, **gateway}) as running:
        await called(running, "please write to ada@example.org\nand say hello")
        await called(running, "something forbidden", "s-2")
        async with browsing(
            browser, running.link if signed_in else running.admin, width=width, scheme=scheme
        ) as page:
            yield running, page


async def test_calls_appear_as_they_end_unless_paused(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await expect(page.locator("#connection")).to_have_text("live")
        await go(page, "#/calls")
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(2)
        receipt = (await called(gateway)).headers["x-hookgate-receipt"]
        await expect(rows).to_have_count(3)
        await expect(rows.first).to_contain_text(receipt[:8])
        await expect(page.locator("#announcer")).to_have_text("1 new call")
        await page.get_by_role("button", name="Pause").click()
        await called(gateway)
        await expect(page.get_by_text("1 new call since you paused.")).to_be_visible()
        await expect(rows).to_have_count(3)
        await page.get_by_role("button", name="Resume").click()
        await expect(rows).to_have_count(4)


async def test_a_query_is_in_the_address_and_the_browser_goes_back(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await page.get_by_role("link", name="Calls", exact=True).click()
        await expect(page.get_by_role("link", name="Calls", exact=True)).to_have_attribute(
            "aria-current", "page"
        )
        await expect(page.locator("tbody tr")).to_have_count(2)
        await find(page, "outcome:denied since:7d")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator("tbody")).to_contain_text("Not here:")
        assert page.url.endswith("#/calls?q=outcome%3Adenied+since%3A7d")
        await expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
        await page.reload()
        await expect(page.get_by_role("searchbox")).to_have_value("outcome:denied since:7d")
        await page.get_by_role("link", name="Yesterday").click()
        await expect(page.get_by_role("searchbox")).to_have_value("outcome:denied during:yesterday")
        await expect(page.get_by_text("No call matches this query.")).to_be_visible()
        for _ in range(2):
            await page.go_back()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.go_back()
        await expect(page).to_have_title("Overview · hookgate")


async def test_a_mistake_in_a_query_is_explained_beside_it(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        for view in ("#/calls", "#/people", "#/sessions"):
            await go(page, view)
            await find(page, "tem:web")
            await expect(page.get_by_role("alert")).to_contain_text(
                "there is no word 'tem'; did you mean team?"
            )
            await expect(page.get_by_role("searchbox")).to_have_value("tem:web")
        await page.get_by_text("Words of a query").click()
        await page.get_by_role("button", name="team:", exact=True).click()
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await expect(page.get_by_role("searchbox")).to_have_value("tem:web team:")
        assert await violations(page) == []


async def test_a_query_finds_also_calls_that_end_later(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await called(gateway, session="Night-Build")
        await go(page, "#/calls")
        await find(page, "session:*night*")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await called(gateway, session="day-build")
        await called(gateway, session="tonight")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("tbody tr").first).to_contain_text("tonight")
        await go(page, "#/sessions/night?key=")
        await expect(page.get_by_text("No call of this session is stored.")).to_be_visible()


async def test_the_first_digits_of_an_id_lead_to_its_call(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        receipt = (await called(gateway)).headers["x-hookgate-receipt"]
        await go(page, "#/calls")
        await find(page, receipt[:8])
        await expect(page.locator("h1")).to_have_text(f"Call {receipt[:8]}")


async def test_what_is_found_is_downloaded(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await go(page, "#/calls?q=outcome:denied")
        for title, name in (("CSV", "calls.csv"), ("lines of JSON", "calls.jsonl")):
            async with page.expect_download() as downloading:
                await page.get_by_role("link", name=title).click()
            download = await downloading.value
            assert download.suggested_filename == name
            text = (await download.path()).read_text()
            assert text.count("denied") >= 1
            assert "answered" not in text


# Strange names are data: each leads to exactly its own calls.
STRANGE = ("a*b", 'say "hi", team:web', "back\\slash", "<b>bold</b>", "50%_off")


async def test_each_row_of_a_report_leads_to_exactly_its_calls(browser: Browser, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with opened(state) as database, ledger_in(database, state) as ledger:
        for number, name in enumerate((*STRANGE, "", "axb")):
            session = SessionContext(f"s-{number}", key=name, team=name, client=f"{name}+")
            ledger.write(entries_of(record_of(number, session=session, model=name)))
        ledger.close()
    async with open_panel(browser, tmp_path) as (_, page):
        for by in ("team", "model", "agent", "team,owner", "hour"):
            rows = page.locator("tbody tr")
            await go(page, f"#/people?by={by}&q=")
            names = await rows.locator("td:first-child").all_inner_texts()
            assert len(names) >= (1 if by == "hour" else len(STRANGE))
            for at, name in enumerate(names):
                await go(page, f"#/people?by={by}&q=")
                calls = await rows.nth(at).get_by_role("cell").nth(len(by.split(","))).inner_text()
                await rows.nth(at).get_by_role("link").first.click()
                await expect(page.locator("h1")).to_have_text("Calls")
                await expect(page.locator("tbody tr"), name).to_have_count(int(calls))


async def test_reports_sum_up_the_calls_of_all_gateways(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await page.get_by_role("link", name="Spend", exact=True).click()
        await page.get_by_role("navigation", name="By").get_by_role("link", name="Model", exact=True).click()
        row = page.locator("tbody tr").first
        await expect(row).to_contain_text("gemini-2.5-flash")
        await expect(page.get_by_text("Google's list prices of 2026-07-24")).to_be_visible()
        await page.get_by_role("navigation", name="Time").get_by_role("link", name="Today").click()
        await expect(page.get_by_role("searchbox")).to_have_value("sort:cost since:today")
        await expect(row).to_contain_text("gemini-2.5-flash")
        await page.get_by_role("link", name="Hooks", exact=True).click()
        await page.get_by_role("link", name="What hooks did").click()
        hooks = page.locator("tbody tr").filter(has_text="broken").get_by_role("cell")
        await expect(hooks.nth(3)).to_have_text("1")  # it ran once
        await expect(hooks.nth(8)).to_have_text("1")  # and failed


async def test_without_the_audit_reports_say_what_they_need(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path, audit=None) as (_, page):
        await go(page, "#/people")
        await expect(page.get_by_role("alert")).to_contain_text("Set audit.enabled to true.")
        await go(page, "#/")
        await expect(page.get_by_text("this gateway since")).to_be_visible()


async def test_the_overview_says_that_all_is_well_or_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, {"BeforeModel": [runs(guards, name="guard")]}, audit={}) as gateway:
        await called(gateway)
        async with browsing(browser, gateway.link) as page:
            await expect(page.get_by_text("All is well")).to_be_visible()
            await expect(page.get_by_text("Hooks have blocked nothing yet.")).to_be_visible()
            await called(gateway, "something forbidden")
            blocked = page.get_by_text("guard denied the call: Not here:")
            await expect(blocked).to_be_visible()

            async def break_down(route: Route) -> None:
                answer = await (await route.fetch()).json()
                unready = {"status": "unready", "reason": "audit records cannot be written"}
                await route.fulfill(json={**answer, "readiness": unready})

            await page.route("**/api/overview", break_down)
            await page.reload()
            await expect(page.get_by_text("audit records cannot be written")).to_be_visible()
            await expect(page.get_by_text("All is well")).to_have_count(0)


async def test_costs_are_listed_if_there_are_prices(browser: Browser, tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text('currency = "EUR"\n[models."*"]\ninput = 1\noutput = 1\n')
    async with open_panel(browser, tmp_path, prices={"file": table}) as (gateway, page):
        await go(page, "#/calls")
        await expect(page.get_by_role("columnheader", name="Cost, EUR")).to_be_visible()
        costs = page.locator("tbody tr td:last-child")
        await expect(costs.last).to_have_text(re.compile(r"^0\.0000\d+$"))
        await called(gateway, session="later")
        await expect(costs).to_have_count(3)
        await expect(costs.first).to_have_text(re.compile(r"^0\.0000\d+$"))


async def test_a_hook_is_switched_off_and_on_and_calls_change(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await go(page, "#/hooks")
        switch = page.get_by_role("switch", name="guard on BeforeModel")
        await expect(switch).to_be_checked()
        assert (await called(gateway, "forbidden")).status == 403
        await switch.click()
        await page.get_by_role("button", name="Cancel").click()
        await expect(switch).to_be_checked()
        await switch.click()
        await page.get_by_role("button", name="Disable", exact=True).click()
        await expect(page.locator(".result")).to_contain_text("'guard' is off")
        await expect(switch).not_to_be_checked()
        await expect(switch).to_be_focused()
        assert (await called(gateway, "forbidden")).status == 200
        await switch.click()
        await page.get_by_role("button", name="Enable", exact=True).click()
        await expect(page.locator(".result")).to_contain_text("'guard' is on")
        await expect(switch).to_be_checked()
        assert (await called(gateway, "forbidden")).status == 403


PUSHED = {"number": 3, "state": "current", "newest": 3, "pushed_by": "ops", "pushed": "", "sha256": ""}


async def test_overview_names_the_pushed_policy_instead_of_no_settings(
    browser: Browser, tmp_path: Path
) -> None:
    async with open_panel(browser, tmp_path) as (_, page):

        async def push(route: Route) -> None:
            answer = await route.fetch()
            await route.fulfill(json={**await answer.json(), "files": [], "pushed": PUSHED})

        await page.route("**/api/overview", push)
        await page.reload()
        await expect(page.get_by_role("link", name="revision 3 of the pushed policy")).to_be_visible()
        await expect(page.get_by_text("Calls are copied through")).to_have_count(0)


async def test_overview_does_not_hide_runs_that_failed_before_the_last_one(
    browser: Browser, tmp_path: Path
) -> None:
    async with open_panel(browser, tmp_path) as (_, page):

        async def recover(route: Route) -> None:
            answer = await (await route.fetch()).json()
            hooks = [{**hook, "state": "on"} for hook in answer["hooks"]]
            await route.fulfill(json={**answer, "hooks": hooks})

        await page.route("**/api/overview", recover)
        await page.reload()
        await expect(page.get_by_text("1 of 6 runs of hooks failed in the last hour.")).to_be_visible()


async def test_a_diff_shows_what_a_hook_changed(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await go(page, "#/calls?q=outcome:answered")
        await page.locator("tbody a").first.click()
        await expect(page.locator("h1")).to_contain_text("Call ")
        request = page.locator(".diff").first
        await expect(request.locator("del")).to_have_text("ada@example.org")
        await expect(request.locator("ins")).to_have_text("[EMAIL]")
        await page.get_by_label("One below the other").check()
        await expect(page.locator(".diff.below").first.locator(".removed")).to_contain_text("please write to")
        change = page.locator("details.change").first
        await expect(change).to_contain_text("mask-mail on BeforeModel")
        await expect(change.locator("del")).to_have_text("ada@example.org")
        await page.get_by_label("JSON").check()
        await expect(page.locator(".diff").first).to_contain_text('"contents": [')


def warmer(_: dict[str, Any]) -> dict[str, Any]:
    """A hook that changes no text."""
    return {"hookSpecificOutput": {"llm_request": {"config": {"temperature": 0.1}}}}


async def test_what_did_not_go_upstream_is_not_said_to_have_gone(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await go(page, "#/calls?q=outcome:denied")
        await page.locator("tbody a").first.click()
        await expect(page.get_by_text("It did not go upstream.")).to_be_visible()
        await expect(
            page.get_by_text("As the client received it; the upstream sent no answer.")
        ).to_be_visible()
        await expect(page.get_by_text("As the upstream sent it")).to_have_count(0)


async def test_the_page_of_a_call_tells_where_something_was_found(browser: Browser, tmp_path: Path) -> None:
    options = {"detect": ["personal"]}
    hook = {"type": "builtin", "name": "watch", "builtin": "redact", "mode": "observe", "options": options}
    async with panel_gateway(tmp_path, {"BeforeModel": [hook]}, audit={}) as gateway:
        receipt = (await called(gateway, "write to ada@example.org")).headers["x-hookgate-receipt"]
        async with browsing(browser, gateway.link) as page:
            await go(page, f"#/calls/{receipt}")
            row = page.get_by_role("table", name="What was found in the call, and where").locator("tbody tr")
            await expect(row).to_have_count(1)
            await expect(row).to_contain_text("contents[0].parts[0].text")
            await expect(row).to_contain_text("stayed: the hook observes")
            await expect(row).to_contain_text(re.compile("HG_EMAIL_[0-9a-f]{16}"))


async def test_an_admin_acts_on_a_call(browser: Browser, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit={}) as gateway:
        receipt = (await called(gateway)).headers["x-hookgate-receipt"]
        async with browsing(browser, gateway.link) as page:
            await go(page, f"#/calls/{receipt}")
            await page.get_by_role("button", name="Stop the session").click()
            await page.get_by_role("button", name="Cancel").click()
            assert "You said" in (await called(gateway)).body.decode()
            await page.get_by_role("button", name="Stop the session").click()
            assert await violations(page) == []
            await page.get_by_role("button", name="Yes").click()
            await expect(page.locator(".result")).to_contain_text("in place of an answer")
            assert "has stopped this session" in (await called(gateway)).body.decode()
            await page.get_by_role("button", name="Only observe: guard").click()
            await expect(page.get_by_role("dialog")).to_contain_text("binds all gateways")


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1600)])
async def test_hooks_are_tried_on_a_call(
    browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, HOOKS, audit=KEPT) as gateway:
        receipt = (await called(gateway)).headers["x-hookgate-receipt"]
        denying = {"type": "builtin", "name": "strict", "builtin": "models", "options": {"deny": ["*"]}}
        write_settings(tmp_path, {"BeforeModel": [denying]})
        await gateway.reloader.reload()
        async with browsing(browser, gateway.link, width=width, scheme=scheme) as page:
            await go(page, f"#/calls/{receipt}")
            await page.get_by_role("button", name="Run hooks").click()
            row = page.get_by_role("table", name="What each hook decided, and decides now")
            await expect(row).to_contain_text("strict")
            await expect(row).to_contain_text("deny")
            await page.evaluate("scrollTo(0, 0)")  # the bar would lie over other buttons
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


async def test_content_stored_redacted_is_not_said_to_have_passed_unchanged(
    browser: Browser, tmp_path: Path
) -> None:
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact", "options": {"detect": ["personal"]}}]}
    async with panel_gateway(tmp_path, hooks, audit={"content": "redacted"}) as gateway:
        receipt = (await called(gateway, "please write to ada@example.org")).headers["x-hookgate-receipt"]
        async with browsing(browser, gateway.link) as page:
            await go(page, f"#/calls/{receipt}")
            await expect(page.get_by_text("Stored after redaction").first).to_be_visible()
            await expect(page.get_by_text("unchanged")).to_have_count(0)


async def test_a_change_beside_the_text_is_reported(browser: Browser, tmp_path: Path) -> None:
    hooks = {"BeforeModel": [runs(warmer, name="warmer")]}
    async with panel_gateway(tmp_path, hooks, audit=KEPT) as gateway:
        receipt = (await called(gateway)).headers["x-hookgate-receipt"]
        async with browsing(browser, gateway.link) as page:
            await go(page, f"#/calls/{receipt}")
            reported = page.get_by_text("The text is unchanged; other fields differ: see JSON.")
            await expect(reported).to_be_visible()
            await expect(page.get_by_text("It went upstream unchanged.")).to_have_count(0)
            await page.get_by_label("JSON").check()
            await expect(reported).to_have_count(0)
            await expect(page.get_by_text("As the client sent it, and as it went upstream.")).to_be_visible()


async def test_a_switched_hook_keeps_its_row(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        await go(page, "#/hooks")
        row = page.locator("tbody tr").first
        await expect(row).to_contain_text("2 / 0 / 0")
        await page.get_by_role("switch", name="mask-mail on BeforeModel").click()
        await page.get_by_role("button", name="Disable", exact=True).click()
        await expect(page.locator(".result")).to_contain_text("'mask-mail' is off")
        await expect(row).to_contain_text("mask-mail")
        await expect(row).to_contain_text("2 / 0 / 0")


COMPARED = """async () => {
  const {compare} = await import("./panel/diff.js");
  let seed = 7;
  const below = (most) => { seed = (seed * 48271) % 2147483647; return seed % most; };
  const parts = ["a", "b ", "é", "\\n", "c,d", "\\n"];
  const text = () => Array.from({length: below(30)}, () => parts[below(6)]).join("");
  const wrong = [];
  for (let turn = 0; turn < 2000; turn += 1) {
    const [before, after] = turn % 5 ? [text(), text()] : Array(2).fill(text());
    const rows = compare(before, after);
    for (const [name, whole] of [["left", before], ["right", after]]) {
      const sides = rows.map((row) => row[name]).filter(Boolean);
      const joined = sides.map((side) => side.words.map((word) => word.text).join("")).join("\\n");
      if (joined !== whole) wrong.push([before, after, name]);
    }
    const changed = rows.some((row) => row.left?.changed || row.right?.changed);
    if (changed !== (before !== after)) wrong.push([before, after]);
  }
  const many = Array.from({length: 9000}, (_, at) => `line ${at}`);
  const large = compare(many.join("\\n"), many.map((line) => `${line}!`).join("\\n"));
  return [wrong, large.length];
}"""


async def test_a_comparison_loses_no_sign_of_either_text(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        assert await page.evaluate(COMPARED) == [[], 9000]


async def test_a_crafted_answer_stays_text(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await called(gateway, CRAFTED, "s-3")
        receipt = (await called(gateway, f"forbidden {CRAFTED}", "s-3")).headers["x-hookgate-receipt"]
        for outcome in ("answered", "denied"):
            await go(page, f"#/calls?q=session:s-3+outcome:{outcome}")
            await page.locator("tbody a").first.click()
            await expect(page.locator(".diff").first).to_contain_text("<script>window.pwned = 1</script>")
            await expect(page.locator(".diff").first).to_contain_text("⟨U+202E⟩gnp.exe⟨U+2066⟩ ⟨U+0007⟩")
            await page.get_by_label("JSON").check()
            await expect(page.locator(".diff").first).to_contain_text("<img src=x onerror=")
            assert "\u202e" not in await page.inner_text("main")
            assert await page.locator("main :is(script, style, img, textarea)").count() == 0
            assert await page.locator("a[href^=javascript]").count() == 0
        await go(page, f"#/calls/{receipt}")
        await expect(page.locator(".facts").get_by_text("Not here: <script>")).to_be_visible()
        assert await page.evaluate("window.pwned") is None


async def test_a_session_tells_its_calls_in_order(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await called(gateway, "forbidden", "s-1")
        await called(gateway, "another key's", "s-1", key="another")
        await go(page, "#/sessions")
        await page.get_by_role("link", name="s-1").last.click()
        items = page.locator(".event")
        await expect(items).to_have_count(2)
        await expect(items.first).to_contain_text("answered")
        await expect(items.last).to_contain_text("guard: deny")
        await called(gateway, "and more", "s-1")
        await expect(items).to_have_count(3)


async def test_charts_are_drawn_and_also_shown_as_a_table(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (_, page):
        charts = page.locator(".chart")
        await expect(charts).to_have_count(2)
        traffic = page.get_by_role("img", name="Traffic. 2 calls in the last day, all gateways")
        await expect(traffic).to_be_visible()
        assert await charts.first.locator("rect.bad").count() > 0
        await page.get_by_text("Traffic as a table").click()
        await expect(charts.first.locator("tbody tr").first).to_contain_text(":")


async def test_it_can_be_used_with_the_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        press = page.keyboard.press
        await press("Tab")
        await expect(page.locator("#skip")).to_be_focused()
        await press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.locator(".brand").focus()
        for _ in range(7):
            await press("Tab")
        await expect(page.get_by_role("link", name="Hooks", exact=True)).to_be_focused()
        await press("Enter")
        await expect(page.locator("h1")).to_have_text("Hooks")
        await expect(page.locator("h1")).to_be_focused()
        await press("Tab")
        await expect(page.get_by_role("link", name="What hooks did, at all gateways")).to_be_focused()
        await press("Tab")
        await expect(page.get_by_role("switch", name="mask-mail on BeforeModel")).to_be_focused()
        await press("Tab")
        await press("Space")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_role("switch", name="guard on BeforeModel")).to_be_focused()
        await press("Enter")
        await press("Tab")
        await press("Enter")
        await expect(page.get_by_role("status").filter(has_text="'guard' is off")).to_be_visible()
        assert (await called(gateway, "forbidden")).status == 200


async def test_signing_in_with_the_token(browser: Browser, tmp_path: Path) -> None:
    admin = {"token": TOKEN, "address": "0.0.0.0:9787"}
    async with open_panel(browser, tmp_path, signed_in=False, admin=admin) as (_, page):
        await expect(page.locator("h1")).to_have_text("Sign in to hookgate")
        assert await violations(page) == []
        await page.get_by_label("Admin token").fill("wrong-token-of-some-length")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("This is not the admin token.")
        await page.get_by_label("Admin token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("Overview")
        await expect(page.locator("#connection")).to_have_text("live")
        await page.reload()
        await expect(page.locator("h1")).to_have_text("Overview")
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.locator("h1")).to_have_text("Sign in to hookgate")


async def test_a_link_signs_in_and_leaves_no_token_in_the_address(browser: Browser, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, HOOKS, admin={}) as gateway:
        token = next((tmp_path / "state").glob("admin-token-*")).read_text()
        link = panel_link(gateway.admin, token)
        asked: list[str] = []
        async with browsing(browser, gateway.admin) as page:
            page.on("request", lambda request: asked.append(f"{request.url} {request.headers}"))
            await expect(page.locator("h1")).to_have_text("Sign in to hookgate")
            await page.goto(link)  # the page is open already: the address alone changes
            await expect(page.locator("h1")).to_have_text("Overview")
            assert page.url == f"{gateway.admin}/#/"
            await page.reload()
            await expect(page.locator("h1")).to_have_text("Overview")
            await page.go_back()
            assert token not in page.url
        assert asked
        assert not any(token in each for each in asked)


async def test_a_link_of_an_earlier_start_asks_for_the_token(browser: Browser, tmp_path: Path) -> None:
    async with (
        panel_gateway(tmp_path, HOOKS) as gateway,
        browsing(browser, f"{gateway.admin}/#token=old") as page,
    ):
        await expect(page.locator("h1")).to_have_text("Sign in to hookgate")
        assert page.url == f"{gateway.admin}/#/"
        await expect(page.locator("#connection")).to_have_text("signed out")


async def test_a_policy_s_hook_has_no_switch(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    policy = write_settings(tmp_path / "policy", {"BeforeModel": [{**says({}), "name": "company"}]})
    async with open_panel(browser, tmp_path, policy_file=policy) as (_, page):
        await go(page, "#/hooks")
        await expect(page.locator("tbody tr").first).to_contain_text("fixed by policy")
        await expect(page.get_by_role("switch", name="company on BeforeModel")).to_have_count(0)
        await expect(page.get_by_role("switch", name="guard on BeforeModel")).to_have_count(1)


async def test_older_calls_are_loaded_where_the_list_ends(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path, audit=None) as (gateway, page):
        for _ in range(51):
            await called(gateway, "forbidden")
        await go(page, "#/calls?q=outcome:denied")
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Load older calls").click()
        await expect(rows).to_have_count(52)
        await expect(rows.nth(50).locator("a").first).to_be_focused()
        await expect(page.get_by_role("button", name="Load older calls")).to_be_hidden()


async def test_a_session_that_has_ended_asks_for_the_token_again(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await expect(page.locator("#connection")).to_have_text("live")
        await page.context.clear_cookies()
        gateway.panel.live.close()
        await expect(page.locator("h1")).to_have_text("Sign in to hookgate")


# The scheme sets colors alone, the width places alone: each is looked at once.
@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1600)])
async def test_every_view_passes_axe_and_fits(
    browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    async with open_panel(browser, tmp_path, width=width, scheme=scheme) as (gateway, page):
        receipt = (await called(gateway, "to ada@example.org")).headers["x-hookgate-receipt"]
        for route in (*VIEWS, f"#/calls/{receipt}", "#/sessions/s-1", "#/nowhere"):
            await go(page, route)
            await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            assert await violations(page) == [], route
            over = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert over <= 0, f"{route} is {over} px too wide"
        await go(page, "#/hooks")
        await page.get_by_role("switch", name="guard on BeforeModel").click()
        assert await violations(page) == []


async def test_the_theme_can_be_chosen_and_stays(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path, scheme="light") as (_, page):
        paper = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(paper)
        for _ in range(2):
            await page.locator("#theme").click()
        await expect(page.locator("#theme")).to_have_text("Theme: dark")
        dark = await page.evaluate(paper)
        assert dark != light
        await page.reload()
        await expect(page.locator("#theme")).to_have_text("Theme: dark")
        assert await page.evaluate(paper) == dark


async def test_after_a_cut_connection_the_view_is_up_to_date(browser: Browser, tmp_path: Path) -> None:
    async with open_panel(browser, tmp_path) as (gateway, page):
        await go(page, "#/calls")
        gateway.panel.live.close()
        await expect(page.locator("#connection")).to_have_text("reconnecting")
        await called(gateway)
        await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.locator("tbody tr")).to_have_count(3)
