"""The mock upstream: a deterministic mock of the Gemini API. It is not a model.

It is for the demo, the tests, and trying hooks offline. docs/mock-upstream.md describes it.
"""

from hookgate.proxy.mock_upstream.script import Script, ScriptError, load_script
from hookgate.proxy.mock_upstream.server import MockUpstream, make_app, run_mock_upstream
from hookgate.proxy.mock_upstream.wire import RECORDED, RecordedRequest

__all__ = [
    "RECORDED",
    "MockUpstream",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "load_script",
    "make_app",
    "run_mock_upstream",
]
