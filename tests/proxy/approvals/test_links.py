"""Links: bound to a request, a person and a time; nobody makes or changes one."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.approving import asked_call, now
from support.operating.receivers import SECRET
from support.programs.program import run

from hookgate.proxy.approvals.links import LinkError, Links, read_links
from hookgate.proxy.approvals.requests import ApprovalRequest
from hookgate.proxy.config import AdminSettings, Config, ConfigError
from hookgate.proxy.config.reading import conflicts

URL = "https://panel.example.com"
PEOPLE = ("ada@example.com", "bob")
LINKS = Links(SECRET, PEOPLE, URL)


def request(expires: int = 60_000) -> ApprovalRequest:
    made = ApprovalRequest.about(asked_call(to="ann"), "7f3a12bc" * 4, now(), now() + expires, 1)
    assert made
    return made


def token(links: Links = LINKS, person: str = "bob", expires: int = 60_000) -> str:
    return links.url_for(request(expires), person).removeprefix(f"{URL}/approvals/")


def test_a_link_says_whose_it_is_and_about_what() -> None:
    made = request()
    link = LINKS.read(LINKS.url_for(made, "bob").rpartition("/")[2], now())
    assert (link.request, link.person, link.expires) == (made.id, "bob", made.expires)


def test_an_expired_link_is_refused() -> None:
    with pytest.raises(LinkError, match="has expired"):
        LINKS.read(token(expires=-1), now())


def test_a_link_of_another_secret_or_of_somebody_who_gets_none_any_more_is_refused() -> None:
    other = Links("whsec_" + base64.b64encode(b"x" * 32).decode(), PEOPLE, URL)
    with pytest.raises(LinkError, match="not made by this gateway"):
        LINKS.read(token(other), now())
    with pytest.raises(LinkError, match="does not decide with links"):
        LINKS.read(token(person="carol"), now())


def test_a_changed_link_is_refused() -> None:
    said, signature = token().split(".")
    document = json.loads(base64.urlsafe_b64decode(said + "=="))
    for change in ({"p": "ada@example.com"}, {"r": "0" * 32}, {"e": document["e"] + 1}):
        changed = base64.urlsafe_b64encode(json.dumps({**document, **change}).encode()).rstrip(b"=").decode()
        with pytest.raises(LinkError, match="it was changed"):
            LINKS.read(f"{changed}.{signature}", now())


@given(st.text(max_size=300))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(LinkError):
        LINKS.read(text, now())


@given(st.data())
def test_no_character_of_a_link_can_be_replaced(data: st.DataObject) -> None:
    good = token()
    at = data.draw(st.integers(0, len(good) - 1))
    new = data.draw(st.characters(codec="ascii"))
    changed = good[:at] + new + good[at + 1 :]
    try:
        link = LINKS.read(changed, now())
    except LinkError:
        return
    assert (link.request, link.person) == ("7f3a12bc" * 4, "bob")  # unused bits of base64


def settings(**approvals: object) -> Config:
    receivers = [{"name": name, "url": "https://x.example", "secret": SECRET} for name in ("a", "b")]
    return Config.model_validate(
        {"approvals": {"mode": "ticket", **approvals}, "alerts": {"receivers": receivers}}
    )


ADA = {"name": "ada@example.com", "receiver": "a"}


def test_links_are_read_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    config = settings(people=[ADA], secret_file=str(file), url=f"{URL}/")
    links = read_links(config.approvals, config.approvals_url)
    assert links
    assert links.url_for(request(), "ada@example.com").startswith(f"{URL}/approvals/")
    assert read_links(settings().approvals, "") is None


def test_a_secret_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"approvals\.secret: must be whsec_"):
        read_links(settings(people=[ADA], secret="s").approvals, URL)  # noqa: S106  # too short for one
    with pytest.raises(ConfigError, match=r"approvals\.secret_file: .* does not exist"):
        read_links(settings(people=[ADA], secret_file=str(tmp_path / "none")).approvals, URL)


async def test_a_check_of_the_configuration_names_the_file_of_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "hookgate.toml"
    file.write_text(
        '[approvals]\nmode = "ticket"\nsecret_file = "none"\n'
        '[[approvals.people]]\nname = "ada"\nreceiver = "a"\n'
        f'[[alerts.receivers]]\nname = "a"\nurl = "https://x.example"\nsecret = "{SECRET}"\n'
    )
    ended = await run("config", "check", "--config", str(file), "--state", str(tmp_path))
    assert ended.code == 1
    assert f"{file}:3: approvals.secret_file: {tmp_path / 'none'}: does not exist" in ended.err


@pytest.mark.parametrize(
    ("approvals", "why"),
    [
        ({"people": [ADA]}, "need approvals.secret_file"),
        ({"people": [ADA, {"name": "ADA@example.com", "receiver": "b"}], "secret": SECRET}, "two are named"),
        ({"people": [ADA], "receivers": ["a"], "secret": SECRET}, "a is named twice"),
        ({"persons": 3}, "less than or equal to 2"),
        ({"mode": "hold", "hold": 0}, "greater than or equal to 0.1"),
        ({"people": [{"name": "<b>\n", "receiver": "a"}], "secret": SECRET}, "match"),
    ],
)
def test_settings_that_cannot_be_meant_are_errors(approvals: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        settings(**approvals)


@pytest.mark.parametrize(
    ("approvals", "problem"),
    [
        ({"receivers": ["c"]}, "approvals.receivers: there is no receiver c; describe it in"),
        (
            {"people": [{"name": "eve", "receiver": "c"}], "secret": SECRET},
            "approvals.people: there is no receiver c",
        ),
        ({"people": [ADA], "secret": SECRET, "admin": "off"}, "approvals.people: their links need the URL"),
    ],
)
def test_a_gateway_does_not_start_with_what_nobody_would_be_told(approvals: Any, problem: str) -> None:
    admin = {"address": approvals.pop("admin", "127.0.0.1:9787")}
    config = settings(**approvals).model_copy(update={"admin": AdminSettings.model_validate(admin)})
    [(name, message)] = conflicts(config)
    assert message.startswith(problem)
    assert name in ("approvals.receivers", "approvals.people")
