"""The effects of hooks as documents: how much of them is kept, and how they are stored."""

import logging
from collections.abc import Mapping

from hookgate.proxy.sessions.memory import ConversationMemory, HookEffect
from hookgate.translator import BodyError
from hookgate.translator.strictjson import MAX_DEPTH, dumps, loads

log = logging.getLogger("hookgate")

MAX_EFFECT_BYTES = 1024 * 1024
"""Bytes of an effect that is kept. The result of a larger one is judged again in each call."""


def take_new_effects(before: Mapping[str, HookEffect], after: ConversationMemory) -> dict[str, bytes]:
    """Return the documents of the effects that were not in a session before, by their identities.

    Effects that cannot be kept are removed from the memory, and logged.
    """
    documents: dict[str, bytes] = {}
    for identity, effect in list(after.effects.items()):
        if before.get(identity) is effect:
            continue
        try:
            documents[identity] = _document_of(effect)
        except ValueError as error:
            del after.effects[identity]
            log.warning(
                "a hook's edit of a tool result could not be stored, so the result will be judged again: %s",
                error,
            )
    return documents


def effect_of(document: bytes) -> HookEffect:
    """Return the effect in a document."""
    fields = loads(document)
    return HookEffect(fields["response"], tuple(fields["contexts"]), fields.get("withheld") is True)


def _document_of(effect: HookEffect) -> bytes:
    """Return an effect in JSON. Raises ValueError if it is too large, or could not be read again."""
    try:
        fields = {"response": effect.response, "contexts": list(effect.contexts)}
        data = dumps({**fields, "withheld": True} if effect.withheld else fields)
        if len(data) <= MAX_EFFECT_BYTES:
            effect_of(data)
            return data
    except (BodyError, RecursionError):
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels") from None
    raise ValueError(f"it takes more than {MAX_EFFECT_BYTES} bytes")
