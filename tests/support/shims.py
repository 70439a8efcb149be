"""What tests of the shim are given: see the fixture of the same name in tests/shim/conftest.py."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from hookgate.shim import Shim

Opened = Callable[..., AbstractAsyncContextManager[Shim]]
"""`async with opened({event: [hook, …]}, **settings) as shim`"""
