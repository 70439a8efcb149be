"""The embedded upstream: a deterministic stand-in for the Gemini API. It is not a model.

It is for the demo, the tests, and trying hooks offline. docs/embedded-upstream.md describes it.
"""

from hookgate.proxy.embedded.script import Script, ScriptError, load_script
from hookgate.proxy.embedded.server import EmbeddedUpstream, make_app, run_embedded
from hookgate.proxy.embedded.wire import RECORDED, RecordedRequest

__all__ = [
    "RECORDED",
    "EmbeddedUpstream",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "load_script",
    "make_app",
    "run_embedded",
]
