"""Answers with a single candidate, as those of dialects whose answers consist of several items."""

from collections.abc import Sequence

from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.fields import JsonObject, parts_of, read_list


def candidate_of(parts: Sequence[JsonObject], reason: str | None = None) -> JsonObject:
    """Return the only candidate of an answer."""
    candidate: JsonObject = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return candidate if reason is None else {**candidate, "finishReason": reason}


def parts_of_answer(response: JsonObject) -> list[JsonObject]:
    """Return the parts of a response that hooks left.

    Further candidates are dropped, because the answer has only one.
    """
    candidates = read_list(response, "candidates")
    return parts_of(candidates[0]) if candidates else []


def group_parts(
    owners: Sequence[int], shown: Sequence[JsonObject], edited: Sequence[JsonObject], first: int = 0
) -> dict[int, list[JsonObject]]:
    """Return edited parts by the owner of the part that each was. A new one belongs to that before it.

    Args:
        owners: The number of the owner of each part that was shown.
        shown: The parts as they were shown.
        edited: What hooks left of them.
        first: The owner of new parts at the beginning.
    """
    groups: dict[int, list[JsonObject]] = {}
    at = first
    for part, match in zip(edited, align_parts(shown, edited), strict=True):
        at = at if match is None else owners[match]
        groups.setdefault(at, []).append(part)
    return groups
