"""JSON in various layouts: any white space, line ends and comments between tokens."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-999, 999)
    | st.floats(-9, 9)
    | st.text(max_size=8)
    | st.sampled_from(["// no comment", "/* nor this */", '"', "\\", "http://x"])
)
_keys = st.sampled_from(["a", "b", "hooks", "//", '"']) | st.text(max_size=4)

json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(_keys, json_values, max_size=4)

Layout = list[str]
"""What stands between tokens, in turn; `#` is where a comment's number goes."""

layouts = st.lists(
    st.sampled_from(
        [
            "",
            " ",
            "\n",
            "\r\n",
            "\t",
            "\n    ",
            "/*#*/",
            "/* # \n two */",
            "//#\n",
            '// # " { ,\r\n  ',
            "/**/ /*#/*/",
        ]
    ),
    min_size=1,
    max_size=12,
)


@dataclass
class Written:
    """A text, the comments within, and the line of each value by the keys that lead to it."""

    text: str = ""
    comments: list[str] = field(default_factory=list)
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)


def commented(value: Any, layout: Layout) -> Written:
    """The value as text with the layout's pieces between its tokens, over and over."""
    written = Written()
    turn = 0

    def gap() -> None:
        nonlocal turn
        piece = layout[turn % len(layout)]
        turn += 1
        if "#" in piece:
            written.comments.append(f"comment~{turn}~")
        written.text += piece.replace("#", f"comment~{turn}~")

    _write(value, (), written, gap)
    gap()
    return written


def _write(value: Any, path: tuple[str | int, ...], written: Written, gap: Callable[[], None]) -> None:
    gap()
    written.lines[path] = written.text.count("\n") + 1
    if not isinstance(value, dict | list):
        written.text += json.dumps(value)
    else:
        is_object = isinstance(value, dict)
        members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        written.text += "{" if is_object else "["
        for number, (key, member) in enumerate(members):
            if number:
                written.text += ","
            if is_object:
                gap()
                written.text += json.dumps(key)
                gap()
                written.text += ":"
            _write(member, (*path, key), written, gap)
        gap()
        written.text += "}" if is_object else "]"
    gap()
