"""Edits of a settings file that a person wrote change only what they are meant to change."""

import json
import stat
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.jsontext import Layout, Written, commented, json_objects, json_values, layouts
from support.hooks.settings import command

from hookgate.hooks import SettingsError
from hookgate.hooks.settings import files
from hookgate.hooks.settings.editing import rewrite, with_disabled, with_hooks, with_switch, write_atomically

Json = dict[str, Any]

WRITTEN = """\
// Our settings. Ask before you change them.
{
  "theme": "Dark",   // not Light
  "hooks": {
    "BeforeTool": [
      {"matcher": "replace", "hooks": [{"name": "lint", "type": "command", "command": "./lint"}]} // quick

      // { "hooks": [] }
    ]
  },
  "hooksConfig": { "disabled": [ "a", "b" /* too slow */, "c" ] }  // end
  /* last */
}
"""


def group(*configs: Json, **more: Any) -> Json:
    return {**more, "hooks": list(configs)}


# ---- for any file


NAMES = st.sampled_from(["a", "b", "c", "é\ud800", '"'])
GROUPS = st.lists(
    st.builds(lambda name, line: group(command(line, name=name)), NAMES, NAMES), min_size=1, max_size=2
)
HOOKS = st.dictionaries(st.sampled_from(["BeforeTool", "AfterTool", "Notification"]), GROUPS, max_size=2)


@st.composite
def settings(draw: st.DrawFn) -> Json:
    """Any settings, with the sections that edits are about in any order among the rest."""
    some = draw(
        st.fixed_dictionaries({}, optional={"enabled": json_values.filter(_is_scalar), "x": json_values})
    )
    listed = draw(st.none() | st.lists(NAMES, max_size=4))
    sections = {
        "hooksConfig": draw(st.none() | st.just(some if listed is None else {**some, "disabled": listed})),
        "hooks": draw(
            st.none() | st.just({}) | st.builds(lambda names: {"disabled": names}, st.lists(NAMES))
        ),
    }
    events = draw(HOOKS)
    if sections["hooks"] is not None:
        sections["hooks"] |= events
    rest = {key: value for key, value in draw(json_objects).items() if key not in sections}
    members = [*rest.items(), *((key, value) for key, value in sections.items() if value is not None)]
    return dict(draw(st.permutations(members)))


@st.composite
def switched_off(draw: st.DrawFn) -> tuple[Json, list[str]]:
    """Settings that switch hooks off in one or both places, and some of those hooks."""
    lists = draw(st.lists(st.lists(NAMES, min_size=2, max_size=4), min_size=1, max_size=2))
    before = {key: value for key, value in draw(json_objects).items() if key != "hooks"}
    for section, names in zip(draw(st.permutations(["hooksConfig", "hooks"])), lists, strict=False):
        before[section] = {**draw(st.sampled_from([{}, {"enabled": True}])), "disabled": names}
    return before, draw(
        st.lists(st.sampled_from([n for names in lists for n in names]), min_size=1, max_size=2)
    )


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def same_but(written: Written, after: str, expected: Json) -> None:
    """The text holds the expected value, key order included, and every comment once."""
    assert json.dumps(files.parse_jsonc(after)) == json.dumps(expected)
    assert all(after.count(comment) == 1 for comment in written.comments)
    bare = files.without_comments(after)
    assert not any(comment in bare for comment in written.comments)


@given(settings(), layouts, st.booleans())
def test_a_switch_changes_only_the_switch(before: Json, layout: Layout, on: bool) -> None:
    written = commented(before, layout)
    expected = deepcopy(before)
    expected.setdefault("hooksConfig", {})["enabled"] = on
    same_but(written, with_switch(written.text, on), expected)


@given(settings() | switched_off().map(lambda case: case[0]), layouts, st.lists(NAMES, max_size=3))
def test_switching_hooks_off_adds_only_their_names(before: Json, layout: Layout, names: list[str]) -> None:
    written = commented(before, layout)
    expected = deepcopy(before)
    there = before.get("hooksConfig", {}).get("disabled", [])
    if new := [name for name in dict.fromkeys(names) if name not in there]:
        expected.setdefault("hooksConfig", {})["disabled"] = [*there, *new]
    same_but(written, with_disabled(written.text, names, True), expected)


@given(switched_off(), layouts)
def test_switching_hooks_on_removes_only_their_names(case: tuple[Json, list[str]], layout: Layout) -> None:
    before, names = case
    written = commented(before, layout)
    expected = deepcopy(before)
    for section in ("hooksConfig", "hooks"):
        if "disabled" in expected.get(section, {}):
            expected[section]["disabled"] = [n for n in expected[section]["disabled"] if n not in names]
    same_but(written, with_disabled(written.text, names, False), expected)


@given(settings(), layouts, HOOKS)
def test_new_groups_come_after_those_that_are_there(before: Json, layout: Layout, hooks: Json) -> None:
    written = commented(before, layout)
    expected = deepcopy(before)
    for event, groups in hooks.items():
        there = [hook for each in before.get("hooks", {}).get(event, []) for hook in each["hooks"]]
        if new := [each for each in groups if each["hooks"][0] not in there]:
            expected.setdefault("hooks", {}).setdefault(event, []).extend(new)
    after = with_hooks(written.text, hooks)
    same_but(written, after, expected)
    assert with_hooks(after, hooks) == after


@given(settings(), layouts, HOOKS, st.lists(NAMES, max_size=2), st.booleans())
def test_adding_only_inserts(before: Json, layout: Layout, hooks: Json, names: list[str], on: bool) -> None:
    """Every character that was there is there still, in order, but for white space."""
    before.get("hooksConfig", {}).pop("enabled", None)  # replacing it is no insertion
    text = commented(before, layout).text
    rest = iter(with_switch(with_disabled(with_hooks(text, hooks), names, True), on))
    assert all(character in rest for character in "".join(text.split()))


@given(settings(), layouts, st.sampled_from(["", "z"]))
def test_an_edit_that_changes_nothing_returns_the_same_text(before: Json, layout: Layout, name: str) -> None:
    text = commented(before, layout).text
    unnamed = [name] if name else []
    assert with_disabled(text, unnamed, False) == text
    assert with_disabled(text, [], True) == text
    assert with_hooks(text, {}) == text
    switched = with_switch(text, True)
    assert with_switch(switched, True) == switched


# ---- what a file looks like afterwards


def test_new_members_follow_the_layout_around_them() -> None:
    hooks = {"BeforeTool": [group(command("./check", name="check"))], "SessionStart": [group()]}
    hooks["SessionStart"][0]["hooks"] = [command("./hello", name="hello")]
    after = with_disabled(with_switch(with_hooks(WRITTEN, hooks), False), ["d"], True)
    assert after == WRITTEN.replace(
        '      // { "hooks": [] }\n    ]\n',
        """\
      // { "hooks": [] }
      {
        "hooks": [
          {
            "type": "command",
            "command": "./check",
            "name": "check"
          }
        ]
      }
    ],
    "SessionStart": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "./hello",
            "name": "hello"
          }
        ]
      }
    ]
""",
    ).replace("} // quick", "}, // quick").replace('"c" ] }', '"c", "d" ], "enabled": false }')


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("a", '[ "b" /* too slow */, "c" ]'),
        ("b", '[ "a", /* too slow */ "c" ]'),
        ("c", '[ "a", "b" /* too slow */ ]'),
    ],
)
def test_a_name_leaves_with_its_comma(name: str, left: str) -> None:
    after = with_disabled(WRITTEN, [name], False)
    assert "".join(after.split()) == "".join(
        WRITTEN.replace('[ "a", "b" /* too slow */, "c" ]', left).split()
    )
    assert after.splitlines()[:10] == WRITTEN.splitlines()[:10]


def test_a_name_on_a_line_of_its_own_leaves_with_the_line() -> None:
    text = '{\n\t"hooks": {"disabled": [\n\t\t"a",\n\t\t// about b\n\t\t"b",\n\t\t"c" // about c\n\t]}\n}'
    assert with_disabled(text, ["a", "c"], False) == (
        '{\n\t"hooks": {"disabled": [\n\t\t// about b\n\t\t"b"\n\t\t// about c\n\t]}\n}'
    )


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "{}\n"], ids=repr)
def test_an_empty_file_becomes_a_formatted_one(text: str) -> None:
    after = with_disabled(text, ["a"], True)
    assert after.strip() == json.dumps({"hooksConfig": {"disabled": ["a"]}}, indent=2)


def test_a_file_of_comments_keeps_them() -> None:
    assert with_switch("// mine", False) == '// mine\n{\n  "hooksConfig": {\n    "enabled": false\n  }\n}\n'


def test_windows_line_ends_and_tabs_stay_what_they_are() -> None:
    assert with_switch('{\r\n\t"a": 1 // one \r\n}\r\n', True) == (
        '{\r\n\t"a": 1, // one \r\n\t"hooksConfig": {\r\n\t\t"enabled": true\r\n\t}\r\n}\r\n'
    )


def test_a_group_with_one_new_hook_is_added_as_a_whole() -> None:
    there, new = command("x", name="a"), command("y", name="b")
    before = json.dumps({"hooks": {"BeforeTool": [group(there)]}})
    after = files.parse_jsonc(with_hooks(before, {"BeforeTool": [group(there, new)]}))
    assert after["hooks"]["BeforeTool"] == [group(there), group(there, new)]


def test_a_hook_without_a_name_is_known_by_its_command() -> None:
    before = json.dumps({"hooks": {"BeforeTool": [group(command("./x"))]}})
    assert with_hooks(before, {"BeforeTool": [group(command("./x", name="./x", timeout=5))]}) == before


def off(text: str) -> str:
    return with_disabled(text, ["a"], True)


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ("[]", off, "the file: must be an object"),
        ('{"hooksConfig": []}', off, "hooksConfig: must be an object"),
        ('{"hooksConfig": null}', off, "hooksConfig: must be an object"),
        ('{"hooksConfig": {"disabled": "a"}}', off, "hooksConfig.disabled: must be a list"),
        (
            '{"hooksConfig": {"enabled": {}}}',
            lambda t: with_switch(t, True),
            "hooksConfig.enabled: must be true",
        ),
        ('{"hooks": 1}', lambda t: with_hooks(t, {"X": [group(command())]}), "hooks: must be an object"),
        ("/* open", off, "has a comment without an end"),
    ],
    ids=["file", "section", "null", "disabled", "enabled", "hooks", "comment"],
)
def test_what_has_another_form_is_reported_and_left_alone(
    text: str, change: Callable[[str], str], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(
        SettingsError, match=rf"settings\.json: {expected}|settings\.json: must contain an object"
    ):
        rewrite(path, change)
    assert path.read_text() == text


# ---- files


def test_a_file_is_changed_in_place_byte_order_mark_and_line_ends_included(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"} // c\r\n')
    assert rewrite(path, lambda text: with_switch(text, False))
    assert path.read_bytes() == b'\xef\xbb\xbf{"a": "\xc3\xa9", "hooksConfig": {"enabled": false}} // c\r\n'
    assert not rewrite(path, lambda text: with_switch(text, False))


def test_a_missing_file_and_its_folder_are_made(tmp_path: Path) -> None:
    path = tmp_path / ".gemini" / "settings.json"
    assert rewrite(path, lambda text: with_switch(text, False))
    assert json.loads(path.read_text()) == {"hooksConfig": {"enabled": False}}
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_change_that_changes_nothing_makes_no_file(tmp_path: Path) -> None:
    assert not rewrite(tmp_path / "settings.json", lambda text: with_disabled(text, ["a"], False))
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_reported_by_line_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{\n "hooks": }')
    with pytest.raises(SettingsError, match=r"settings\.json:2:11: is not valid JSON"):
        rewrite(path, off)
    assert path.read_text() == '{\n "hooks": }'


def test_a_place_where_nothing_can_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        SettingsError, match=r"settings\.json: cannot be changed: Not a directory; check path"
    ):
        rewrite(tmp_path / "file" / "settings.json", off)


def test_writing_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("old")
    path.chmod(0o640)
    inode = path.stat().st_ino
    write_atomically(path, "new é")
    assert path.read_bytes() == "new é".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_ino != inode  # another file took its place: nobody reads half of it
    assert [each.name for each in tmp_path.iterdir()] == ["settings.json"]


def test_writing_through_a_symlink_replaces_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles" / "gemini.json", tmp_path / "settings.json"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half a character pair: \ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["settings.json"]
