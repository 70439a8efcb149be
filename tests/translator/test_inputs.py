"""Token counts and embeddings: the requests that hooks see, and the effects of edits."""

from typing import Any

import pytest
from support.translation.inspect import Json

from hookgate.translator import ITEM_METHODS, BodyError, EditError, read_inputs


def user(text: str, **more: Any) -> Json:
    return {"role": "user", "parts": [{"text": text}], **more}


HI = [user("hi")]
SYSTEM = {"parts": [{"text": "be kind"}]}
EMBEDDED = {"model": "models/e", "content": user("hi"), "taskType": "RETRIEVAL_QUERY"}
BATCHED = {"batch": {"displayName": "n", "inputConfig": {"requests": {"requests": [{"request": EMBEDDED}]}}}}
IN_BATCH = "batch.inputConfig.requests.requests[0].request"


@pytest.mark.parametrize(
    ("verb", "body", "shown"),
    [
        pytest.param(
            "countTokens",
            {"model": "m", "contents": HI, "systemInstruction": SYSTEM},
            [("", {"contents": HI, "systemInstruction": SYSTEM})],
            id="count",
        ),
        pytest.param(
            "countTokens",
            {"generateContentRequest": {"model": "m", "contents": HI}},
            [("generateContentRequest", {"model": "m", "contents": HI})],
            id="count of a request",
        ),
        pytest.param(
            "countTokens",
            {"request": {"model": "m", "contents": HI}},
            [("request", {"contents": HI})],
            id="count of Code Assist",
        ),
        pytest.param("computeTokens", {"contents": HI}, [("", {"contents": HI})], id="tokens"),
        pytest.param("embedContent", EMBEDDED, [("", {"contents": HI})], id="embedding"),
        pytest.param(
            "embedContent",
            {"content": user("hi", role="model"), "title": "t", "embedContentConfig": {"title": "u"}},
            [("", {"contents": [user("t"), user("u"), user("hi")]})],
            id="embedding with titles",
        ),
        pytest.param(
            "batchEmbedContents",
            {"requests": [EMBEDDED, {"content": {"parts": []}, "title": "t"}]},
            [
                ("requests[0]", {"contents": HI}),
                ("requests[1]", {"contents": [user("t"), {"parts": []}]}),
            ],
            id="embeddings",
        ),
        pytest.param(
            "asyncBatchEmbedContent",
            BATCHED,
            [(IN_BATCH, {"contents": HI}), ("batch", {"contents": [user("n")]})],
            id="batch of embeddings",
        ),
    ],
)
def test_all_text_is_shown_as_requests_and_an_unchanged_body_is_the_very_object(
    verb: str, body: Json, shown: list[tuple[str, Json]]
) -> None:
    inputs = read_inputs(verb, body)
    assert verb in ITEM_METHODS
    assert [(each.path, each.request) for each in inputs.requests] == shown
    assert inputs.edited([each.request for each in inputs.requests]) is body
    named = inputs.edited([each.request for each in inputs.requests], lambda obj: {**obj, "model": "other"})
    objects = [path for path, _ in shown if path != "batch"]  # the labels of a batch are no object of it
    assert str(named).count("'model': 'other'") == len(objects)


HO = [user("ho")]


@pytest.mark.parametrize(
    ("verb", "body", "edits", "expected"),
    [
        pytest.param(
            "countTokens",
            {"model": "m", "contents": HI, "systemInstruction": SYSTEM},
            [{"contents": HO, "safetySettings": []}],
            {"model": "m", "contents": HO},
            id="count, without what it does not support",
        ),
        pytest.param(
            "countTokens",
            {"request": {"model": "m", "contents": HI}},
            [{"contents": HO, "system_instruction": SYSTEM}],
            {"request": {"model": "m", "contents": HO}},
            id="count of Code Assist",
        ),
        pytest.param(
            "countTokens",
            {"generateContentRequest": {"contents": HI}},
            [{"contents": HO, "labels": {}}],
            {"generateContentRequest": {"contents": HO, "labels": {}}},
            id="count of a request",
        ),
        pytest.param(
            "embedContent",
            {"content": user("hi", role="model"), "title": "t", "embedContentConfig": {"title": "u"}},
            [{"contents": [user("T"), user("U"), user("ho")]}],
            {"content": user("ho", role="model"), "title": "T", "embedContentConfig": {"title": "U"}},
            id="embedding, which keeps its role",
        ),
        pytest.param(
            "embedContent",
            {"content": {"parts": [{"text": "hi"}]}, "embedContentConfig": {"title": "u"}},
            [{"contents": [{"parts": [{"text": "U"}, {"text": "V"}]}, {"parts": []}]}],
            {"content": {"parts": []}, "embedContentConfig": {"title": "UV"}},
            id="embedding without a role",
        ),
        pytest.param(
            "batchEmbedContents",
            {"requests": [EMBEDDED, EMBEDDED], "model": "m"},
            [{"contents": HI}, {"contents": HO}],
            {"requests": [EMBEDDED, {**EMBEDDED, "content": user("ho")}], "model": "m"},
            id="embeddings",
        ),
        pytest.param(
            "asyncBatchEmbedContent",
            {"batch": {"displayName": "n", "inputConfig": {"requests": {"requests": []}}}},
            [{"contents": [user("N")]}],
            {"batch": {"displayName": "N", "inputConfig": {"requests": {"requests": []}}}},
            id="name of a batch",
        ),
    ],
)
def test_an_edit_goes_where_its_text_came_from(
    verb: str, body: Json, edits: list[Json], expected: Json
) -> None:
    before = repr(body)
    assert read_inputs(verb, body).edited(edits) == expected
    assert repr(body) == before


def test_a_title_that_is_edited_leaves_the_content_as_it_is() -> None:
    body = {"content": user("hi", role="model"), "title": "t"}
    inputs = read_inputs("embedContent", body)
    [shown] = inputs.requests
    edited = inputs.edited([{"contents": [user("T"), shown.request["contents"][-1]]}])
    assert edited == {"content": body["content"], "title": "T"}
    assert edited["content"] is body["content"]


@pytest.mark.parametrize(
    ("contents", "path"),
    [
        pytest.param(None, "requests[0].contents", id="no contents"),
        pytest.param([user("hi")], "requests[0].contents", id="a turn is missing"),
        pytest.param([user("t"), user("hi"), user("more")], "requests[0].contents", id="a turn is added"),
        pytest.param([{"parts": [{"inlineData": {}}]}, user("hi")], "requests[0].contents", id="no text"),
        pytest.param([{"parts": {"text": "t"}}, user("hi")], "requests[0].contents", id="no list of parts"),
    ],
)
def test_an_edit_that_an_embedding_cannot_represent_is_refused_with_its_place(
    contents: Any, path: str
) -> None:
    body = {"requests": [{"content": user("hi"), "title": "t"}]}
    with pytest.raises(EditError) as raised:
        read_inputs("batchEmbedContents", body).edited([{"contents": contents}])
    assert raised.value.path == path
    with pytest.raises(EditError) as raised:
        read_inputs("embedContent", body["requests"][0]).edited([{"contents": contents}])
    assert raised.value.path == "contents"


SETTINGS = {
    "taskType": ["a b", "", "x" * 65, 5],
    "title": [5, ["t"]],
    "outputDimensionality": ["5", 1.5],
    "autoTruncate": ["true", 1],
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("place", ["", "embedContentConfig"])
def test_a_setting_that_could_hide_text_is_refused_with_its_place(name: str, place: str) -> None:
    for value in SETTINGS[name]:
        settings = {name: value}
        item = {"content": user("hi"), **({place: settings} if place else settings)}
        for verb, body, before in (
            ("embedContent", item, ""),
            ("batchEmbedContents", {"requests": [item]}, "requests[0]."),
        ):
            with pytest.raises(BodyError) as raised:
                read_inputs(verb, body)
            assert raised.value.path == before + (f"{place}." if place else "") + name


@pytest.mark.parametrize("name", ["documentOcr", "audioTrackExtraction"])
def test_settings_of_documents_are_true_or_false(name: str) -> None:
    config = {
        name: True,
        "autoTruncate": False,
        "outputDimensionality": 7,
        "taskType": "x" * 64,
        "title": None,
    }
    body = {"content": user("hi"), "embedContentConfig": config}
    assert len(read_inputs("embedContent", body).requests) == 1
    with pytest.raises(BodyError):
        read_inputs("embedContent", {"content": user("hi"), "embedContentConfig": {name: "text"}})
    with pytest.raises(BodyError):
        read_inputs("embedContent", {"content": user("hi"), name: True})


@pytest.mark.parametrize(
    ("verb", "body", "path"),
    [
        ("countTokens", {"contents": HI, "labels": {}}, "labels"),
        ("countTokens", {"request": {"contents": HI}, "contents": HI}, "contents"),
        ("countTokens", {"request": {"contents": HI}, "model": "m"}, "model"),
        ("countTokens", {"request": [HI]}, "request"),
        ("countTokens", {"request": {"contents": HI, "tools": []}}, "request.tools"),
        ("countTokens", {"generateContentRequest": 5}, "generateContentRequest"),
        ("countTokens", {"generateContentRequest": {}, "contents": HI}, "contents"),
        (
            "countTokens",
            {"contents": HI, "system_instruction": {}, "systemInstruction": {}},
            "systemInstruction",
        ),
        ("computeTokens", {"contents": HI, "tools": []}, "tools"),
        ("embedContent", {"content": user("hi"), "text": "x"}, "text"),
        ("embedContent", {"content": "hi"}, "content"),
        ("embedContent", {"content": {"role": "a b", "parts": []}}, "content.role"),
        ("embedContent", {"content": user("hi"), "embedContentConfig": 5}, "embedContentConfig"),
        ("embedContent", {"content": user("hi"), "embedContentConfig": {"x": 1}}, "embedContentConfig.x"),
        ("batchEmbedContents", {"requests": {}}, "requests"),
        ("batchEmbedContents", {"requests": [EMBEDDED, 5]}, "requests[1]"),
        ("batchEmbedContents", {"requests": [{**EMBEDDED, "content": 5}]}, "requests[0].content"),
        ("batchEmbedContents", {"requests": [], "x": 1}, "x"),
        ("asyncBatchEmbedContent", {"requests": []}, "requests"),
    ],
)
def test_a_body_that_hooks_could_not_judge_is_refused_with_its_place(
    verb: str, body: Json, path: str
) -> None:
    with pytest.raises(BodyError) as raised:
        read_inputs(verb, body)
    assert raised.value.path == path
