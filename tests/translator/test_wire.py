"""The laws on captured traffic of real clients and models, if that exists beside the project."""

from pathlib import Path

import pytest
from support.translation.inspect import Json, all_parts, exact, hidden_parts, texts, with_each_text
from support.translation.lens import MODEL, edited_request, edited_response, messages_of
from support.upstream.captured import REQUESTS, RESPONSES, STREAMS, requests_in, responses_in

from hookgate.translator import (
    JsonArray,
    ServerSentEvents,
    apply_request,
    check_request,
    show_request,
    show_response,
)
from hookgate.translator.strictjson import dumps, loads

pytestmark = pytest.mark.usefixtures("shared")


def redacted(text: str) -> str:
    return text and "[REDACTED]"


@pytest.mark.parametrize("file", REQUESTS)
def test_an_echo_changes_nothing_of_a_captured_request(file: Path) -> None:
    for body in requests_in(file):
        assert check_request(body) is body
        assert apply_request(MODEL, body, show_request(MODEL, body)) == (MODEL, body)
        assert exact(loads(dumps(edited_request(body, show_request(MODEL, body))))) == exact(body)


@pytest.mark.parametrize("file", REQUESTS)
def test_a_word_replaced_in_a_captured_request_changes_only_that_word(file: Path) -> None:
    for body in requests_in(file):
        for word in {text.split()[-1] for text in texts(body) if text.strip()}:

            def changed(text: str, word: str = word) -> str:
                return text.replace(word, "[REDACTED]")

            messages = [{**m, "content": changed(m["content"])} for m in messages_of(body)]
            wanted = with_each_text(body, changed)
            assert exact(edited_request(body, {"messages": messages})) == exact(wanted)
            assert wanted != body


@pytest.mark.parametrize("file", RESPONSES)
def test_an_echo_changes_nothing_of_a_captured_answer(file: Path) -> None:
    for body in responses_in(file):
        assert edited_response(body, show_response(body)) is body


@pytest.mark.parametrize("file", RESPONSES)
def test_a_captured_answer_whose_whole_text_is_redacted_keeps_all_else(file: Path) -> None:
    for body in responses_in(file):
        edit = show_response(body)
        for candidate in edit["candidates"]:
            candidate["content"]["parts"] = [redacted(text) for text in candidate["content"]["parts"]]
        after = edited_response(body, edit)
        assert exact(after) == exact(with_each_text(body, redacted))
        assert signatures(after) == signatures(body)


@pytest.mark.parametrize("file", RESPONSES)
def test_a_captured_answer_whose_text_is_emptied_keeps_its_calls_and_signatures(file: Path) -> None:
    for body in responses_in(file):
        edit = {"candidates": [{"content": {"parts": []}} for _ in body.get("candidates", [])]}
        after = edited_response(body, edit)
        assert not any(texts(after))
        assert exact(hidden_parts(after)) == exact(hidden_parts(body))
        assert signatures(after) == signatures(body)


def signatures(body: Json) -> list[str]:
    return [part["thoughtSignature"] for part in all_parts(body) if "thoughtSignature" in part]


@pytest.mark.parametrize("file", STREAMS)
def test_a_captured_stream_keeps_its_bytes(file: Path) -> None:
    stream = file.read_bytes()
    events = ServerSentEvents()
    frames = [frame for at in range(0, len(stream), 7) for frame in events.feed(stream[at : at + 7])]
    frames += events.finish()
    assert b"".join(events.encode(frame, frame.data) for frame in frames) == stream


@pytest.mark.parametrize("file", STREAMS)
def test_a_captured_stream_sent_as_an_array_holds_the_same_answers(file: Path) -> None:
    bodies = responses_in(file)
    array = JsonArray()
    sent = b"".join(array.event(dumps(body)) for body in bodies) + array.end()
    received = [loads(frame.data) for frame in JsonArray().feed(sent)]
    assert exact(received) == exact(bodies)
