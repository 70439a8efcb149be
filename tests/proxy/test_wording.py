"""Plurals, and messages about errors of the operating system."""

import errno
import socket

import pytest

from hookgate.proxy.errors import describe_os_error, pluralize


def test_one_is_no_plural() -> None:
    assert [pluralize(count, "call") for count in (0, 1, 2)] == ["0 calls", "1 call", "2 calls"]
    assert [pluralize(count, "call has", "calls have") for count in (1, 2)] == ["1 call has", "2 calls have"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(FileNotFoundError(errno.ENOENT, "x", "/p"), "No such file or directory", id="file"),
        pytest.param(OSError(errno.EADDRINUSE, "error while binding"), "Address already in use", id="bind"),
        pytest.param(OSError("a sentence"), "a sentence", id="ours"),
        pytest.param(TimeoutError("timed out"), "timed out", id="timeout"),
        pytest.param(
            socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="name"
        ),
    ],
)
def test_what_the_system_says_has_no_number(error: OSError, expected: str) -> None:
    assert describe_os_error(error) == expected
