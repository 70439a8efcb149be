"""Whatever the messages in which a client sends a text, none completes what hooks do not let through."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.hooks.builtins import redacted

from hookgate.translator import apply_request, show_request
from hookgate.translator.fields import EditError, read, read_list, read_object
from hookgate.translator.live import ClientMessage, ClientText

Json = dict[str, Any]
SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
PHRASE = "blue heron"


def in_turns(*turns: Json, complete: bool | None = None) -> Json:
    message: Json = {"turns": [*turns]}
    return {"clientContent": message if complete is None else {**message, "turnComplete": complete}}


RESULT = {"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}}
KINDS: list[Callable[[str], Json]] = [
    lambda text: {"realtimeInput": {"text": text}},
    lambda text: {"realtime_input": {"text": text, "activityEnd": {}}},
    lambda text: in_turns({"role": "user", "parts": [{"text": text}]}),
    lambda text: in_turns({"parts": [{"text": text}]}, complete=True),
    lambda text: {"client_content": {"turns": {"parts": {"text": text}}, "turn_complete": False}},
    lambda text: in_turns({"role": "user", "parts": [RESULT]}, {"parts": [{"text": text}]}),
    lambda text: in_turns({"role": "user", "parts": [{"text": text}, RESULT]}),
    lambda text: in_turns({"role": "model", "parts": [{"text": text}]}),
    lambda text: in_turns({"role": "user", "parts": [{"text": text, "thought": True}]}),
    lambda text: in_turns({"role": "model", "parts": [{"text": text[:1]}, {"text": text[1:]}]}),
]
BETWEEN: list[Json] = [
    {"toolResponse": {"functionResponses": [{"id": "1", "name": "f", "response": {"output": "x"}}]}},
    in_turns({"parts": [{"text": ""}]}),
    in_turns(complete=True),
    {"realtimeInput": {"audioStreamEnd": True}},
    {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": "AAAA"}}},
]


@st.composite
def messages_with(draw: st.DrawFn, forbidden: str) -> list[Json]:
    """Messages of random kinds, with a text that contains what is forbidden."""
    around = st.text("abc .,\n", max_size=9)
    text = f"{draw(around)} {forbidden} {draw(around)}"
    cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=9)))
    messages: list[Json] = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        messages += draw(st.lists(st.sampled_from(BETWEEN), max_size=2))
        messages.append(draw(st.sampled_from(KINDS))(text[start:end]))
    return messages


def text_read(messages: Sequence[Json]) -> str:
    """What the upstream reads, in its order."""
    texts: list[str] = []
    for message in messages:
        realtime, content = read_object(message, "realtimeInput"), read_object(message, "clientContent")
        texts.append(read(realtime, "text") or "")
        for turn in read_list(content, "turns"):
            texts += [part.get("text") or "" for part in read_list(turn, "parts")]
    return "".join(texts)


def send(messages: Sequence[Json], hook: Callable[[Json], Json | None]) -> list[Json]:
    """What reaches the upstream if `hook` judges requests, and returns None to deny one."""
    said = ClientText()
    sent: list[Json] = []
    for each in messages:
        message = ClientMessage(each)
        if message.request is None:
            sent.append(message.message)
            continue
        shown = said.continued(message.request)
        judged = hook(shown)
        if judged is None:
            break
        try:
            sent.append(message.edited(said.latest(message.request, shown, judged)))
        except EditError:
            break
    return sent


def redact(request: Json) -> Json:
    return redacted("BeforeModel", "llm_request", {"model": "m", "raw": request})


def deny_phrase(request: Json) -> Json | None:
    texts = [message["content"] for message in show_request("m", request)["messages"]]
    return None if any(PHRASE in text for text in texts) else request


def edit_phrase(request: Json) -> Json:
    """Replace one letter, wherever it stands."""
    view = show_request("m", request)
    messages = [
        {**each, "content": each["content"].replace(PHRASE, "blue hero*")} for each in view["messages"]
    ]
    return apply_request("m", request, {"messages": messages})[1]


@given(messages_with(SECRET))
@settings(max_examples=settings().max_examples * 3)
def test_a_secret_in_pieces_never_reaches_the_upstream_whole(messages: list[Json]) -> None:
    assert SECRET not in text_read(send(messages, redact))


@given(messages_with(PHRASE))
@settings(max_examples=settings().max_examples * 3)
def test_a_denied_phrase_in_pieces_never_reaches_the_upstream_whole(messages: list[Json]) -> None:
    assert PHRASE not in text_read(send(messages, deny_phrase))


@given(messages_with(PHRASE))
@settings(max_examples=settings().max_examples * 3)
def test_an_edited_phrase_in_pieces_never_reaches_the_upstream_whole(messages: list[Json]) -> None:
    assert PHRASE not in text_read(send(messages, edit_phrase))


@given(messages_with("harmless"))
def test_messages_that_no_hook_edits_are_sent_as_they_are(messages: list[Json]) -> None:
    sent = send(messages, redact)
    assert len(sent) == len(messages)
    assert all(new is old for new, old in zip(sent, messages, strict=True))


def test_a_long_message_of_many_parts_is_remembered_up_to_a_limit() -> None:
    said = ClientText()
    request = {"contents": [{"parts": [{"text": "ab"}] * 50_000}]}
    said.latest(request, request, request)
    [turn] = said.continued({"contents": [{"parts": [{"text": "c"}]}]})["contents"]
    assert turn["parts"] == [{"text": "ab" * 4096}, {"text": "c"}]
