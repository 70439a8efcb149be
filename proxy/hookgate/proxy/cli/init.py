"""`hookgate init`: writes one of the setups that come with hookgate, and says what to type next."""

import argparse
import shlex
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_USUAL_FOLDER = "gateway"

_MOCK = "127.0.0.1:8788"
"""Where the mock upstream listens: the address that the configurations suggest."""


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate init`."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(_USUAL_FOLDER),
        metavar="FOLDER",
        help=f"a new or empty folder for the files (default: {_USUAL_FOLDER})",
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--for", dest="use", choices=setups("uses"), help="what the gateway is for")
    choice.add_argument("--from", dest="policy", choices=setups("policies"), help="a policy template")
    choice.add_argument("--list", action="store_true", help="describe all setups, and write nothing")


def run_init(args: argparse.Namespace) -> int:
    """Write the chosen setup, or list all of them. Returns 0; raises ValueError or OSError."""
    if args.list:
        _print_list()
        return 0
    if not (args.use or args.policy):
        uses = ", ".join(setups("uses"))
        raise ValueError(
            f"choose a setup: --for with {uses}, or --from with a template; "
            "`hookgate init --list` describes them"
        )
    setup = setups("uses")[args.use] if args.use else setups("policies")[args.policy]
    written = setup.write(args.folder)
    print(f"{setup.summary}\n\nWritten: {', '.join(map(str, written))}\n")
    _print_next(setup, args.folder)
    return 0


def command_name() -> str:
    """Return the command as the user can type it: by its name if that is found, else by its path."""
    return "hookgate" if shutil.which("hookgate") else str(Path(sys.executable).with_name("hookgate"))


def _print_list() -> None:
    for title, flag, found in (
        ("Uses", "--for", setups("uses")),
        ("Policy templates", "--from", setups("policies")),
    ):
        print(f"{title}, for `hookgate init {flag} NAME`:")
        for name, setup in found.items():
            print(f"  {name:18}{setup.summary}")


def _print_next(setup: "Setup", folder: Path) -> None:
    """Print the commands that follow, as they can be pasted into a shell."""
    hookgate = shlex.quote(command_name())
    configuration = f"--config {shlex.quote(str(folder / 'hookgate.toml'))}"
    serve = f"{hookgate} serve {configuration}"
    attempt = f"sh {shlex.quote(str(folder / 'try.sh'))}"
    if setup.name == "team":
        key_file = shlex.quote(str(folder / "gemini-key"))
        _print_step(
            "Save the gateway's own key, or, for the mock, a placeholder",
            f'(umask 077; echo "${{GEMINI_API_KEY:-placeholder}}" > {key_file})',
        )
        attempt = f"GEMINI_API_KEY=$({hookgate} keys create ivan --team interns {configuration}) {attempt}"
    _print_step("Check the setup", f"{hookgate} doctor {configuration}")
    _print_step("Start the gateway", serve)
    _print_step(
        "Or, without a Gemini key, try it with a mock of the API, in two terminals",
        f"{hookgate} mock-upstream --listen {_MOCK}",
        f"{hookgate} doctor {configuration} --upstream http://{_MOCK}",
        f"{serve} --upstream http://{_MOCK}",
    )
    _print_step("In another terminal, see what it does (the script says what to expect)", attempt)
    _print_step(
        "List the agents, and print the settings of one of them",
        f"{hookgate} agents list",
        f"{hookgate} agents show gemini-cli {configuration}",
    )
    print(f"Then change {folder / 'settings.json'}. A running gateway applies changes of it at once.")


def _print_step(title: str, *commands: str) -> None:
    print(f"{title}:", *(f"    {command}" for command in commands), "", sep="\n")


_CONFIGURATION = "hookgate.toml"

SetupKind = Literal["uses", "policies"]
"""Setups for a use of the gateway (`--for`), or policy templates (`--from`)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A setup that can be written into a folder."""

    name: str
    summary: str
    """One sentence: the first line of its settings.json."""
    files: tuple[Path, ...]
    """What is copied: hookgate.toml, settings.json, try.sh and what they need."""

    def write(self, folder: Path) -> list[Path]:
        """Copy the files into a new or empty folder, and return the copies.

        Raises ValueError if the folder contains anything, and OSError if it cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty, and nothing is overwritten; name a new or empty folder")
        written = []
        for source in self.files:
            with (folder / source.name).open("xb") as copy:
                copy.write(source.read_bytes())
            written.append(folder / source.name)
        return written


def examples_folder() -> Path:
    """Return the folder of the examples: beside the commands if installed, else in the source tree."""
    installed = Path(__file__).with_name("examples")
    return installed if installed.is_dir() else Path(__file__).parents[4] / "examples"


@cache
def setups(kind: SetupKind) -> dict[str, Setup]:
    """Return the setups by name."""
    folder = examples_folder() / "setups"
    found = sorted(path for path in (folder / kind).iterdir() if path.is_dir())
    return {path.name: _setup(path, folder / _CONFIGURATION) for path in found}


def _setup(folder: Path, usual_configuration: Path) -> Setup:
    files = {path.name: path for path in (usual_configuration, *folder.iterdir()) if path.is_file()}
    first_line = files["settings.json"].read_text(encoding="utf-8").partition("\n")[0]
    return Setup(folder.name, first_line.removeprefix("// "), tuple(files[name] for name in sorted(files)))
