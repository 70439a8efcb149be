"""The embedded upstream: a deterministic stand-in for the Gemini API. It is not a model.

For the demo, the tests, and trying hooks offline; docs/embedded-upstream.md is its manual.
"""

from hookgate.proxy.embedded.running import EmbeddedUpstream, running
from hookgate.proxy.embedded.script import Script, ScriptError, load_script
from hookgate.proxy.embedded.server import make_app
from hookgate.proxy.embedded.wire import RECORDED, Recorded

__all__ = [
    "RECORDED",
    "EmbeddedUpstream",
    "Recorded",
    "Script",
    "ScriptError",
    "load_script",
    "make_app",
    "running",
]
