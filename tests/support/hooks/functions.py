"""Functions and objects of this process as hooks that deny."""

import asyncio

from support.hooks.settings import Json

DENIAL = {"decision": "deny", "reason": "no"}


def deny(_: Json) -> Json:
    return DENIAL


async def deny_later(_: Json) -> Json:
    await asyncio.sleep(0)
    return DENIAL


class Denier:
    """An object with an async method for calls of itself."""

    async def __call__(self, _: Json) -> Json:
        return await deny_later(_)
