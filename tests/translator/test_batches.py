"""Bodies that create batches: requests and labels, edits of both, and refusals."""

from typing import Any

import pytest
from support.translation.inspect import Json

from hookgate.translator import BatchBody, BodyError, EditError

REQUESTS = "batch.inputConfig.requests.requests"
FIRST, SECOND = ({"contents": [{"role": "user", "parts": [{"text": text}]}]} for text in "ab")
METADATA: Json = {"key": "k-1", "tags": ["x", {"deep": "y"}], "number": 3, "nothing": None}
LABELS = ["name", "\nkey: ", "k-1", "\ntags: ", "x", "\ndeep: ", "y", "\nnumber: ", "\nnothing: "]
"""Names are shown as such before their values."""


def body_of(*items: Any, **batch: Any) -> Json:
    source = {"requests": {"requests": list(items)}}
    return {"batch": {"displayName": "name", "inputConfig": source, "priority": "7", **batch}}


BODY = body_of({"request": FIRST, "metadata": METADATA}, {"request": SECOND})
SNAKE = {
    "batch": {
        "display_name": "name",
        "input_config": {"requests": {"requests": [{"request": FIRST, "metadata": METADATA}]}},
    }
}


def relabeled(labels: Json, change: Any) -> Json:
    texts = [turn["parts"][0]["text"] for turn in labels["contents"]]
    return {"contents": [{"role": "user", "parts": [{"text": change(text)}]} for text in texts]}


def test_a_batch_has_its_requests_by_their_paths() -> None:
    batch = BatchBody(BODY)
    assert batch.requests == [(f"{REQUESTS}[0].request", FIRST), (f"{REQUESTS}[1].request", SECOND)]
    assert batch.requests[0][1] is FIRST
    assert batch.batch == BODY["batch"]
    single = BatchBody({"batch": {"inputConfig": {"requests": {"requests": {"request": FIRST}}}}})
    assert single.requests == [(f"{REQUESTS}[0].request", FIRST)]
    with pytest.raises(BodyError, match="fileName"):
        BatchBody({"batch": {"inputConfig": {"fileName": "files/f-1"}}})


@pytest.mark.parametrize("body", [BODY, SNAKE], ids=["camelCase", "snake_case"])
def test_every_string_of_its_name_and_metadata_is_a_label(body: Json) -> None:
    labels = BatchBody(body).labels()
    assert [turn["role"] for turn in labels["contents"]] == ["user"] * len(LABELS)
    assert [turn["parts"] for turn in labels["contents"]] == [[{"text": label}] for label in LABELS]


def test_a_batch_without_strings_has_no_labels() -> None:
    body = {"batch": {"inputConfig": {"requests": {"requests": [{"request": FIRST, "metadata": {}}]}}}}
    batch = BatchBody(body)
    assert batch.labels() == {}
    assert batch.edited([FIRST], batch.labels()) is body


@pytest.mark.parametrize("body", [BODY, SNAKE], ids=["camelCase", "snake_case"])
def test_a_batch_that_nothing_changes_is_the_very_object(body: Json) -> None:
    batch = BatchBody(body)
    requests = [request for _, request in batch.requests]
    for labels in (None, batch.labels(), relabeled(batch.labels(), str)):
        assert batch.edited(requests, labels) is body


def test_an_edited_request_replaces_only_itself() -> None:
    assert BatchBody(BODY).edited([FIRST, {"contents": []}], None) == body_of(
        {"request": FIRST, "metadata": METADATA}, {"request": {"contents": []}}
    )


def test_edited_labels_take_their_places_in_the_name_and_metadata() -> None:
    batch = BatchBody(BODY)
    edited = batch.edited([FIRST, SECOND], relabeled(batch.labels(), str.upper))
    metadata = {"KEY": "K-1", "TAGS": ["X", {"DEEP": "Y"}], "NUMBER": 3, "NOTHING": None}
    items = {"request": FIRST, "metadata": metadata}, {"request": SECOND}
    assert edited == body_of(*items, displayName="NAME")
    named = batch.edited([FIRST, SECOND], relabeled(batch.labels(), lambda text: text.replace("name", "n")))
    assert named == body_of(*BODY["batch"]["inputConfig"]["requests"]["requests"], displayName="n")


def test_a_label_in_several_parts_is_their_text() -> None:
    batch = BatchBody({"batch": {"displayName": "name", "inputConfig": {"requests": {"requests": []}}}})
    labels = {"contents": [{"parts": [{"text": "a"}, {"text": "b"}]}]}
    assert batch.edited([], labels)["batch"]["displayName"] == "ab"


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([], id="none"),
        pytest.param([{"parts": [{"text": "a"}]}] * (len(LABELS) - 1), id="one too few"),
        pytest.param([{"parts": [{"text": "a"}]}] * (len(LABELS) + 1), id="one too many"),
        pytest.param([{"parts": [{"inlineData": {}}]}] * len(LABELS), id="no text"),
        pytest.param([{"parts": [{"text": "a"}, {"inlineData": {}}]}] * len(LABELS), id="more than text"),
    ],
)
def test_labels_that_have_no_place_are_refused(turns: list[Json]) -> None:
    with pytest.raises(EditError) as raised:
        BatchBody(BODY).edited([FIRST, SECOND], {"contents": turns, "tools": []})
    assert raised.value.path == "batch"


@pytest.mark.parametrize("priority", [None, 5, -5, "12", "-12", 10**18])
def test_a_priority_is_an_integer(priority: Any) -> None:
    assert BatchBody(body_of(priority=priority)).requests == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "batch"),
        ({"batch": []}, "batch"),
        ({"batch": {}}, "batch.inputConfig"),
        ({"batch": {"inputConfig": {}}}, "batch.inputConfig.requests"),
        ({"batch": {"inputConfig": {"requests": []}}}, "batch.inputConfig.requests"),
        ({"batch": {"inputConfig": {"requests": {"requests": "x"}}}}, REQUESTS),
        ({"batch": {"inputConfig": {"requests": {"odd": 1}}}}, "batch.inputConfig.requests.odd"),
        ({"batch": {"inputConfig": {"requests": {}, "odd": 1}}}, "batch.inputConfig.odd"),
        ({"batch": {"inputConfig": {"fileName": "f"}}}, "batch.inputConfig.fileName"),
        ({**body_of(), "odd": 1}, "odd"),
        (body_of(odd=1), "batch.odd"),
        (body_of(priority="urgent"), "batch.priority"),
        (body_of(priority="1" * 20), "batch.priority"),
        (body_of(priority="1 "), "batch.priority"),
        (body_of(displayName=["x"]), "batch.displayName"),
        (body_of({"request": FIRST}, 5), f"{REQUESTS}[1]"),
        (body_of({"request": FIRST, "odd": 1}), f"{REQUESTS}[0].odd"),
        (body_of({"metadata": METADATA}), f"{REQUESTS}[0].request"),
        (body_of({"request": [FIRST]}), f"{REQUESTS}[0].request"),
    ],
)
def test_a_body_that_hooks_could_not_judge_is_refused_with_its_place(body: Json, path: str) -> None:
    with pytest.raises(BodyError) as raised:
        BatchBody(body)
    assert raised.value.path == path
