"""The panel's scripts, which a browser loads as modules."""

import shutil
import subprocess
from importlib.resources import files

import pytest

PAGES = files("hookgate.proxy.admin") / "pages"


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_each_script_can_be_parsed() -> None:
    scripts = [each for each in PAGES.iterdir() if each.name.endswith(".js")]
    assert len(scripts) > 20
    for each in scripts:
        command = ["node", "--input-type=module", "--check"]
        ended = subprocess.run(command, input=each.read_bytes(), capture_output=True, check=False)
        assert ended.returncode == 0, f"{each.name}: {ended.stderr.decode()}"
