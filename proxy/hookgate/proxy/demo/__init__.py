"""`hookgate demo`: a real google-genai client uses the gateway, offline, in checked scenes."""

import shlex
import shutil
import sys
from pathlib import Path

from hookgate.hooks import Engine, load_settings
from hookgate.proxy import embedded
from hookgate.proxy.app import serve_on
from hookgate.proxy.call.gateway import Gateway
from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.http.client import Upstreams


async def run_demo() -> int:
    """Start upstream and gateway on free ports and play the scenes. Returns 0 if all checks pass, else 1.

    Raises ModuleNotFoundError if google-genai or rich, which hookgate[demo] installs, is missing.
    """
    from hookgate.proxy.demo.scenes import play_scenes  # noqa: PLC0415  # google-genai takes a second to import

    examples = _examples()
    script = embedded.load_script(examples / "upstream-script.json")
    engine = Engine(load_settings([examples / "settings.json"]))
    async with (
        embedded.run_embedded(script) as stand_in,
        Upstreams(UpstreamSettings(gemini=stand_in.url)) as upstream,
        serve_on(Gateway(engine, upstream).handle, "127.0.0.1", 0) as url,
    ):
        code = await play_scenes(url, stand_in)
    if code == 0:
        print("Next:", shlex.join([_command(), "serve", "--hooks", str(examples / "settings.json")]))
    return code


def _command() -> str:
    """Return the command as the user can type it: by its name if that is found, else by its path."""
    return "hookgate" if shutil.which("hookgate") else str(Path(sys.executable).with_name("hookgate"))


def _examples() -> Path:
    """Return the folder of the example hooks: beside this file if installed, else in the source tree."""
    installed = Path(__file__).parent / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "examples"
