"""A call stays with its responses, and with no others, however a hook moves the turns around it."""

from typing import Any

import pytest

from hookgate.translator import apply_request

Json = dict[str, Any]

HI: Json = {"role": "user", "parts": [{"text": "hi"}]}
NEW: Json = {"role": "user", "parts": [{"text": "new"}]}


def calling(text: str, name: str) -> Json:
    return {"role": "model", "parts": [{"text": text}, {"functionCall": {"name": name, "args": {}}}]}


def answering(name: str) -> Json:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}}]}


F, F_RESULT, G, G_RESULT = calling("a", "f"), answering("f"), calling("b", "g"), answering("g")


def after(contents: list[Json], *texts: str) -> list[Json]:
    """The contents after a hook's messages of these texts, of which the model said `a` and `b`."""
    messages = [{"role": "model" if text in "ab" else "user", "content": text} for text in texts]
    new: list[Json] = apply_request("m", {"contents": contents}, {"messages": messages})[1]["contents"]
    return new


@pytest.mark.parametrize(
    ("contents", "texts", "expected"),
    [
        pytest.param(
            [HI, F, F_RESULT, G, G_RESULT],
            ("hi", "b", "a"),
            [HI, G, G_RESULT, F, F_RESULT],
            id="calls change places, each with its response",
        ),
        pytest.param(
            [HI, F, F_RESULT, G, G_RESULT],
            ("hi", "a", "new", "b"),
            [HI, F, F_RESULT, NEW, G, G_RESULT],
            id="a turn between two answered calls",
        ),
        pytest.param(
            [F, HI, G, G_RESULT],
            ("hi", "a", "b"),
            [HI, F, G, G_RESULT],
            id="a call that has no response moves",
        ),
        pytest.param(
            [F, HI, G, G_RESULT],
            ("a", "new", "hi", "b"),
            [F, NEW, HI, G, G_RESULT],
            id="a turn behind a call that has no response",
        ),
    ],
)
def test_what_belongs_together_moves_together(
    contents: list[Json], texts: tuple[str, ...], expected: list[Json]
) -> None:
    assert after(contents, *texts) == expected


def test_a_message_of_the_same_text_and_another_role_is_another_message() -> None:
    contents = [{"role": "user", "parts": [{"text": text}]} for text in ("one", "two", "three")]
    roles = ["user", "model", "user"]
    messages = [
        {"role": role, "content": turn["parts"][0]["text"]}
        for role, turn in zip(roles, contents, strict=True)
    ]
    _, body = apply_request("m", {"contents": contents}, {"messages": messages})
    assert [turn["role"] for turn in body["contents"]] == roles
    assert [turn["parts"] for turn in body["contents"]] == [turn["parts"] for turn in contents]
