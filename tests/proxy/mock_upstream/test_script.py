"""Scripts: which rule applies, and the messages about mistakes in them."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.places import DOCS

from hookgate.proxy.mock_upstream import Script, ScriptError, load_script
from hookgate.proxy.mock_upstream.script import Player, ScriptedAnswer, ScriptScene


def player(*rules: dict[str, Any]) -> Player:
    return Player(Script.model_validate({"rules": list(rules)}))


def rule(name: str, **fields: Any) -> dict[str, Any]:
    return {"answer": {"text": name}, **fields}


def picked(
    player: Player,
    text: str = "hi",
    model: str = "gemini-2.5-pro",
    *,
    stream: bool = False,
    tool_responses: tuple[str, ...] = (),
    requires_json: bool = False,
) -> str | None:
    answer = player.pick(ScriptScene(text, model, stream, tool_responses, requires_json))
    return None if answer is None else answer.text


def test_the_first_matching_rule_decides() -> None:
    two = player(rule("one", when={"text": "red"}), rule("two"))
    assert picked(two, "a red car") == "one"
    assert picked(two, "a blue car") == "two"


def test_without_a_matching_rule_there_is_no_answer() -> None:
    assert picked(player(rule("one", when={"text": "red"})), "blue") is None


def test_a_rule_is_used_as_often_as_times_says() -> None:
    twice = player(rule("first", times=2), rule("then"))
    assert [picked(twice) for _ in range(4)] == ["first", "first", "then", "then"]


def test_a_request_that_does_not_match_uses_nothing_up() -> None:
    once = player(rule("once", times=1, when={"text": "red"}))
    assert [picked(once, text) for text in ("blue", "red", "red")] == [None, "once", None]


def test_each_player_counts_for_itself() -> None:
    script = Script.model_validate({"rules": [rule("once", times=1)]})
    assert [picked(Player(script)), picked(Player(script))] == ["once", "once"]


@pytest.mark.parametrize(
    ("when", "scene", "matches"),
    [
        ({"model": "gemini-2.5-*"}, {"model": "gemini-2.5-pro"}, True),
        ({"model": "gemini-2.5-*"}, {"model": "gemini-3-pro"}, False),
        ({"stream": True}, {"stream": True}, True),
        ({"stream": False}, {"stream": True}, False),
        ({"tool_response": True}, {"tool_responses": ("f",)}, True),
        ({"tool_response": True}, {"tool_responses": ()}, False),
        ({"tool_response": "f"}, {"tool_responses": ("e", "f")}, True),
        ({"tool_response": "f"}, {"tool_responses": ("e",)}, False),
        ({"json": True}, {"requires_json": True}, True),
        ({"json": True}, {}, False),
        ({"json": False}, {"requires_json": True}, False),
        ({"json": False}, {}, True),
        ({"text": "a", "stream": True}, {"text": "a", "stream": False}, False),
    ],
)
def test_every_condition_must_be_met(when: dict[str, Any], scene: dict[str, Any], matches: bool) -> None:
    assert picked(player(rule("yes", when=when)), **scene) == ("yes" if matches else None)


@pytest.mark.parametrize(
    ("answer", "warns"),
    [
        ({"text": "All is well."}, True),
        ({"chunks": ["All ", "is well."]}, True),
        ({"text": '{"all": "well"}'}, False),
        ({"chunks": ['{"all": ', '"well"}']}, False),
        ({"chunks": [[{"text": "All is well."}]]}, False),
        ({"parts": [{"functionCall": {"name": "f"}}]}, False),
        ({"error": {"status": 503, "message": "overloaded"}}, False),
    ],
)
def test_a_text_that_answers_a_call_for_json_is_warned_of_once(
    answer: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    played = player({"answer": answer})
    picked(played)
    assert caplog.messages == []
    for _ in range(2):
        picked(played, requires_json=True)
    expected = 'write "json": false in its "when"'
    assert [expected in message for message in caplog.messages] == [True] * warns


# -- loading -------------------------------------------------------------------------------------------------


def test_a_script_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"rules": [{"when": {"text": "a"}, "answer": {"chunks": ["b"], "delay_ms": 5}}]}')
    script = load_script(path)
    assert script.rules[0].answer.chunks == ["b"]
    assert script.rules[0].answer.delay_ms == 5


def test_the_example_in_the_manual_is_a_script(tmp_path: Path) -> None:
    manual = (DOCS / "mock-upstream.md").read_text()
    path = tmp_path / "example.json"
    path.write_text(manual.partition("```json\n")[2].partition("```")[0])
    given = {kind for rule in load_script(path).rules for kind in rule.answer.model_fields_set}
    # Every field of an answer is shown, so that a new one cannot be left out of the manual.
    assert given == set(ScriptedAnswer.model_fields)


def mistake(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ScriptError) as caught:
        load_script(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("rule", "place", "problem"),
    [
        ({"answer": {"text": "a"}, "wen": {}}, "rules[1].wen", "is not known; remove it."),
        ({}, "rules[1].answer", "is missing."),
        ({"answer": {}}, "rules[1].answer", "exactly one of text, chunks, parts, responses, error"),
        ({"answer": {"text": "a", "parts": []}}, "rules[1].answer", "given: text, parts"),
        ({"answer": {"chunks": 5}}, "rules[1].answer.chunks", "must be a list."),
        (
            {"answer": {"chunks": ["a", 5]}},
            "rules[1].answer.chunks[1]",
            "must be a string or must be a list.",
        ),
        ({"answer": {"chunks": []}}, "rules[1].answer.chunks", "is empty."),
        (
            {"answer": {"chunks": [[5]]}},
            "rules[1].answer.chunks[0]",
            "must be a string or must be an object.",
        ),
        (
            {"answer": {"text": "a", "delay_ms": "5"}},
            "rules[1].answer.delay_ms",
            "must be a whole number, without quotes.",
        ),
        ({"answer": {"text": "a", "cut_after": -1}}, "rules[1].answer.cut_after", "must be at least 0."),
        ({"answer": {"text": "a"}, "times": 0}, "rules[1].times", "must be at least 1."),
        ({"answer": {"error": {"status": 200, "message": ""}}}, "rules[1].answer.error.status", "400"),
        ({"answer": {"error": {"status": 503}}}, "rules[1].answer.error.message", "is missing."),
        ({"when": {"tool_response": False}, "answer": {"text": "a"}}, "rules[1].when.tool_response", "True"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(
    tmp_path: Path, rule: dict[str, Any], place: str, problem: str
) -> None:
    good = {"answer": {"text": "fine"}}
    message = mistake(tmp_path, orjson.dumps({"rules": [good, rule]}))
    assert message.startswith(f"{place}: ")
    assert problem in message
    assert "The mock upstream" in message


def test_a_script_that_is_not_an_object_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, b"[]").startswith("the whole file: ")


def test_broken_json_is_named_with_its_line_and_column(tmp_path: Path) -> None:
    assert mistake(tmp_path, b'{"rules":\n  [}').startswith("line 2, column 4: not JSON")
    assert mistake(tmp_path, b"rules:\n  - {}\n").startswith(
        "is YAML, but a script is JSON. Write it as JSON."
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"absent\.json: cannot be read \(No such file or directory\)"):
        load_script(tmp_path / "absent.json")
