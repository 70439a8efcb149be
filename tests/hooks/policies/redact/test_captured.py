"""The policy `redact` on captured real answers, split in every way."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.hooks.builtins import SENSITIVE
from support.upstream.captured import RESPONSES, STREAMS, responses_in

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.translator.streaming.events import TextChannel, join_texts

pytestmark = pytest.mark.usefixtures("shared")

Json = dict[str, Any]
POLICY: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
PLANTED = " Reach anna.berg@example.org with AKIA" + "Q3EGRYH7XJ4WPL2D today. "


def outcome(events: list[Json]) -> list[Json]:
    screen = POLICY.screen(SessionContext("s-1"))
    out = [body for each in events for _, body in screen.feed([each], last=False)]
    return out + [body for _, body in screen.feed([], last=True)]


def texts_by_channel(events: list[Json]) -> dict[TextChannel, str]:
    return {channel: text for channel, text in join_texts(events).items() if text}


def text_of(events: list[Json]) -> str:
    return join_texts(events).get(TextChannel(0, thought=False), "")


def spoken(*pieces: str) -> list[Json]:
    return [{"candidates": [{"content": {"role": "model", "parts": [{"text": piece}]}}]} for piece in pieces]


@pytest.mark.parametrize("file", RESPONSES)
def test_a_captured_answer_with_nothing_to_hide_says_the_same(file: Path) -> None:
    events = responses_in(file)
    assert texts_by_channel(outcome(events)) == texts_by_channel(events)


@pytest.mark.parametrize("file", STREAMS)
def test_a_captured_stream_gives_the_same_wherever_it_is_split(file: Path) -> None:
    said = text_of(responses_in(file))
    middle = len(said) // 2
    text = said[:middle] + PLANTED + said[middle:]
    whole = text_of(outcome(spoken(text)))
    assert PLANTED not in whole
    assert len(whole) < len(text)
    for at in range(max(middle - 200, 0), min(middle + len(PLANTED) + 200, len(text)), 4):
        assert text_of(outcome(spoken(text[:at], text[at:]))) == whole
    random = Random(file.name)  # noqa: S311  # it cuts texts
    for _ in range(6):
        edges = sorted(random.choices(range(len(text)), k=random.randint(2, 200)))
        pieces = [text[a:b] for a, b in zip([0, *edges], [*edges, None], strict=True)]
        assert text_of(outcome(spoken(*pieces))) == whole
