"""The types of the fixtures for tests of the shim (tests/shim/conftest.py)."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from hookgate.shim import Shim

Opened = Callable[..., AbstractAsyncContextManager[Shim]]
"""`async with opened({event: [hook, …]}, **settings) as shim`"""
