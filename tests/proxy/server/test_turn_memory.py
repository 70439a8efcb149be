"""The memory of turns: which it finds again, and how much it keeps."""

import tracemalloc
from typing import Any

import orjson
import pytest

from hookgate.proxy.server.turn_memory import TurnMemory
from hookgate.translator.known_turns import (
    Known,
    RequestTurns,
    begin_of_turns,
    digest_of_history,
    parse_turns,
    totals_of,
)
from hookgate.translator.strictjson import Bounds

BOUNDS = Bounds(2**20, 2**20)


def texts(*words: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"text": word}]} for word in words]


def encoded(*words: str, **more: Any) -> bytes:
    return orjson.dumps({"contents": texts(*words), **more})


def read(memory: TurnMemory, caller: str, data: bytes) -> RequestTurns:
    """Read and remember a request."""
    _, turns = parse_turns(data, memory.find(caller, data), BOUNDS)
    memory.remember(caller, turns)
    return turns


def test_a_conversation_that_goes_on_replaces_what_is_known_of_it() -> None:
    memory = TurnMemory()
    read(memory, "anna", encoded("a" * 1000, "b"))
    before = memory.bytes
    assert read(memory, "anna", encoded("a" * 1000, "b", "c")).known == 2
    assert before < memory.bytes < 1.5 * before
    assert read(memory, "anna", encoded("a" * 1000, "b", "c", tools=[])).known == 3


def test_a_conversation_that_goes_back_and_on_in_another_way_is_known_up_to_there() -> None:
    memory = TurnMemory()
    read(memory, "anna", encoded("a", "b", "c", "d"))
    assert read(memory, "anna", encoded("a", "b", "x")).known == 2
    assert read(memory, "anna", encoded("a", "b", "c", "d", "e")).known == 4
    assert read(memory, "anna", encoded("a", "b", "x", "y")).known == 3


def test_callers_do_not_know_turns_of_one_another() -> None:
    memory = TurnMemory()
    read(memory, "anna", encoded("a"))
    assert memory.find("ben", encoded("a")) == Known()


@pytest.mark.parametrize("text", [b'{"contents": [{}]}', b'{"contents":[{},]}', b'{"a":1}', b'{"contents":['])
def test_turns_that_are_not_as_they_would_be_serialized_are_not_remembered(text: bytes) -> None:
    memory = TurnMemory()
    read(memory, "anna", b'{"contents":[{}]}')
    expected = 1 if begin_of_turns(text) >= 0 and b"{}" in text else 0
    assert (
        len(memory.find("anna", text).turns) == expected
    )  # they only seem to be known: the rest is still parsed


def test_the_memory_is_bounded_and_shared_fairly() -> None:
    memory = TurnMemory(40_000)
    read(memory, "anna", encoded("first " * 100))
    for number in range(100):
        read(memory, "mallory", encoded(f"{number} " * 200, "x"))
        assert 0 < memory.bytes <= 40_000
    assert memory.find("anna", encoded("first " * 100)).turns
    assert memory.find("mallory", encoded("99 " * 200, "x")).turns
    assert not memory.find("mallory", encoded("0 " * 200, "x")).turns


def test_values_count_as_memory_and_a_conversation_that_takes_too_much_is_not_remembered() -> None:
    memory = TurnMemory(40_000)
    many: Any = [{"parts": [{"functionCall": {"name": "f", "args": {"a": [[]] * 100}}}]}]
    read(memory, "anna", orjson.dumps({"contents": many}))
    assert memory.bytes == 0


def test_a_request_is_compared_with_a_bounded_number_of_conversations() -> None:
    memory = TurnMemory()
    read(memory, "anna", encoded("anna's"))
    for number in range(2000):
        read(memory, "mallory", encoded(f"{number}"))
    compared = CountedComparisons(encoded("none of these"))
    memory.find("mallory", compared)
    assert 0 < compared.count <= 500
    assert memory.find("mallory", encoded("1999")).turns
    assert not memory.find("mallory", encoded("0")).turns
    assert memory.find("anna", encoded("anna's")).turns


class CountedComparisons(bytes):
    """The text of a request, which counts how often its beginning is compared."""

    count = 0

    def startswith(self, *given: Any) -> bool:
        self.count += 1
        return super().startswith(*given)


def test_many_empty_turns_take_no_more_memory_than_is_counted() -> None:
    memory, kept = TurnMemory(), []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(4):
            data = b'{"contents":[{"parts":[{"text":"%d"}]}%s]}' % (number, b",{}" * 5000)
            turns = read(memory, "mallory", data)
            totals_of(turns.turns)
            digest_of_history(turns.turns)
            kept.append(turns)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < memory.bytes


def test_fields_behind_turns_count_as_memory_and_are_known_from_the_third_request_on() -> None:
    memory, tools = TurnMemory(), [{"name": "f" * 10_000}]
    read(memory, "anna", encoded("a", tools=tools))
    assert memory.bytes < 10_000
    assert not read(memory, "anna", encoded("a", "b", tools=tools)).fields_known
    assert memory.bytes > 20_000
    assert read(memory, "anna", encoded("a", "b", "c", tools=tools)).known_fields == {"tools": tools}
    assert not read(memory, "anna", encoded("a", "b", "c", "d", tools=[])).fields_known
    known = [read(memory, "ben", encoded("a", tools=tools)).fields_known for _ in range(4)]  # sent again
    assert known == [False, False, True, True]
