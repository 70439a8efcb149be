"""The shared conformance vectors of the hook contract, where they lie beside the project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
VECTORS = PROJECT.parent / "shared" / "conformance"
GROUPS = ("req", "resp", "tools", "wire", "run", "effects")


@pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no conformance vectors: {VECTORS} does not exist")
def test_every_vector_of_the_translator_and_of_running_hooks_passes() -> None:
    environment = {
        **os.environ,
        "ADAPTER": str(Path(__file__).with_name("adapter.py")),
        "WIRE_DATA": str(VECTORS.parent / "wire" / "responses"),
        "PYTHONPATH": os.pathsep.join(str(PROJECT / part) for part in ("translator", "hooks", "proxy")),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    groups = [argument for group in GROUPS for argument in ("--group", group)]
    run = subprocess.run(
        [sys.executable, str(VECTORS / "compare.py"), *groups],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    figure = re.fullmatch(r"(\d+) of (\d+)", run.stdout.strip().splitlines()[-1])
    assert figure, run.stdout
    assert figure[1] == figure[2], run.stdout
    assert int(figure[2]) > 400
