"""What tools print, with secrets planted in it: the tools run where they can, else their formats are written.

A document is the lines of real files with statements in between that hold a secret each, as people write them
in that place. Which secrets, and where, is random. What formats do to them, such as escaping, they do.
"""

import base64
import json
import linecache
import random
import re
import string
import subprocess
import textwrap
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .secrets import PLANTED

SIGNS = "!#$%&()*+,-./:;<=>?@[]^_{|}~"


@dataclass(frozen=True)
class Secret:
    """One planted secret: its label, a name for what holds it, and its text."""

    label: str
    name: str
    text: str

    @property
    def stated(self) -> str:
        """With what makes it one, where that is needed: `Bearer` and the like."""
        if self.label.startswith("ASSIGNMENT"):
            return self.text
        before, after, _ = PLANTED[self.label]
        return f"{before}{self.text}{after}"


def password(rnd: random.Random) -> str:
    """What a generator of passwords gives: letters, digits and signs, a few of each at least."""
    while True:
        text = "".join(rnd.choices(string.ascii_letters + string.digits + SIGNS, k=rnd.randrange(12, 33)))
        if re.search("[0-9]", text) and re.search("[a-z]", text) and re.search("[A-Z]", text):
            return text


LABELS = [label for label in PLANTED if not label.startswith(("ASSIGNMENT", "KUBERNETES"))] + [
    "ASSIGNMENT password"
] * 4


def secrets(rnd: random.Random, count: int) -> list[Secret]:
    """As many of each label, in random order."""
    out = []
    for number in range(count):
        label = LABELS[number % len(LABELS)]
        text = password(rnd) if label not in PLANTED else PLANTED[label][2](rnd).replace("\\n", "\n")
        name = rnd.choice(
            ["DB_PASSWORD", "APP_SECRET", "AUTH_TOKEN", "API_KEY", "adminPassword", "client_secret"]
        )
        if not label.startswith("ASSIGNMENT"):
            name = rnd.choice([name, "VALUE", "contact", "X", "NOTE_2"])
        out.append(Secret(label, name, text.replace("\r", "")))
    rnd.shuffle(out)
    return out


def statement(rnd: random.Random, secret: Secret) -> str:
    """A line of a file, or several, that holds the secret."""
    value, name = secret.stated, secret.name
    quoted = f'"{value}"'
    forms = [f"{name}={value}", f"{name} = {quoted}", f"{name}: {value}", f"  {name}:   {quoted},"]
    if "\n" in value:
        block = textwrap.indent(value, "    ")
        forms = [value, f"{name}: |\n{block}", f'{name} = """\n{value}\n"""']
    elif not secret.label.startswith("ASSIGNMENT"):
        forms += [f"# {value}", f"see {value} for more", value, f"- {value}", f"f({quoted})"]
    return rnd.choice(forms)


def material(rnd: random.Random, root: Path, size: int) -> list[str]:
    """Lines of real files under a folder, about `size` characters."""
    files = sorted(p for p in root.rglob("*") if p.suffix in {".py", ".md", ".txt", ".js", ".json", ".rst"})
    rnd.shuffle(files)
    lines: list[str] = []
    left = size
    for file in files:
        if left <= 0:
            break
        try:
            text = file.read_text()[: min(left, 200_000)]
        except (UnicodeDecodeError, OSError):
            continue
        lines += [line for line in text.replace("\r", "").split("\n") if len(line) < 2000]
        left -= len(text)
    return lines


def document(rnd: random.Random, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """The lines with a statement for each secret in between."""
    out = list(lines)
    for secret in planted:
        out.insert(rnd.randrange(len(out) + 1), statement(rnd, secret))
    return "\n".join(out) + "\n"


# ---- what prints it

Format = Callable[[random.Random, Path, Sequence[str], Sequence[Secret]], str]


def _ran(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout.decode()


def cat(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    (folder / "config.py").write_text(document(rnd, lines, planted))
    return _ran(folder, "cat", "-n", "config.py")


def grep(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    (folder / "deploy").mkdir(exist_ok=True)
    (folder / "deploy" / "settings.conf").write_text(document(rnd, lines, planted))
    (folder / "deploy" / "other.conf").write_text("x = 1\n")
    return _ran(folder, "grep", "-rn", "-C2", "[A-Za-z0-9]", "deploy")


def git_diff(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    (folder / "old").write_text(document(rnd, lines, planted[: len(planted) // 2]))
    (folder / "new").write_text(document(rnd, lines[::-1], planted[len(planted) // 2 :]))
    return _ran(folder, "git", "diff", "--no-index", "--no-color", "old", "new")


def env(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    out = ""
    for at in range(0, max(len(planted), 1), 50):
        names = {f"{each.name}_{n}": each.stated for n, each in enumerate(planted[at : at + 50])}
        others = {f"LINE_{n}": line for n, line in enumerate(rnd.sample(lines, min(40, len(lines))))}
        mixed = [*names.items(), *others.items()]
        rnd.shuffle(mixed)
        result = subprocess.run(["/usr/bin/env"], env=dict(mixed), capture_output=True, check=True)
        out += result.stdout.decode()
    return out


def compose_logs(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """`docker compose logs --timestamps`: a column of services, and a time before each line."""
    del folder
    services = ["web-1     ", "worker-1  ", "db-1      "]
    out, service = [], services[0]
    for number, line in enumerate(document(rnd, lines, planted).split("\n")):
        service = (
            service
            if "KEY" in line or re.fullmatch(r"\s*[A-Za-z0-9+/=]{16,}", line)
            else rnd.choice(services)
        )
        second, nano = number % 60, rnd.randrange(10**9)
        out.append(f"{service}| 2025-03-09T11:02:{second:02}.{nano:09}Z {line}")
    return "\n".join(out)


def _kubernetes(
    rnd: random.Random, planted: Sequence[Secret], lines: Sequence[str]
) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    for at in range(0, max(len(planted), 1), 5):
        data = {
            f"{each.name.lower().replace('_', '-')}-{n}": base64.b64encode(each.text.encode()).decode()
            for n, each in enumerate(planted[at : at + 5])
        }
        meta = {
            "creationTimestamp": "2025-03-09T11:02:07Z",
            "name": f"app-{at}",
            "namespace": "default",
            "resourceVersion": str(rnd.randrange(10**8)),
            "uid": "0b0d4f0e-6a3e-4c55-8d6c-3f1f0c9e7d21",
        }
        if data:
            items.append(
                {"apiVersion": "v1", "data": data, "kind": "Secret", "metadata": meta, "type": "Opaque"}
            )
        config = {f"line-{n}": line for n, line in enumerate(rnd.sample(lines, min(30, len(lines))))}
        items.append({"apiVersion": "v1", "data": config, "kind": "ConfigMap", "metadata": meta})
    return items


def kubectl_json(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    del folder
    listed = {"apiVersion": "v1", "items": _kubernetes(rnd, planted, lines), "kind": "List", "metadata": {}}
    return json.dumps(listed, indent=4)


def kubectl_yaml(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """Documents as `kubectl get -o yaml` prints one: keys in order, maps indented by two."""
    del folder
    return "---\n".join(_yaml(item) for item in _kubernetes(rnd, planted, lines))


def _yaml(value: object, indent: int = 0) -> str:
    out = ""
    for key, item in value.items() if isinstance(value, dict) else ():
        pad = " " * indent
        if isinstance(item, dict):
            out += f"{pad}{key}:\n{_yaml(item, indent + 2)}"
        else:
            plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9+/=._-]*|[A-Za-z0-9+/]{5,}={1,2}", str(item))
            out += f"{pad}{key}: {item if plain else json.dumps(item)}\n"
    return out


def json_dump(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """A client's record of tool calls: files as strings, and arguments as JSON in a string."""
    del folder
    out = []
    steps = range(0, max(len(planted), 1), 10)
    each_lines = len(lines) // len(steps)
    for number, at in enumerate(steps):
        some = planted[at : at + 10]
        file = document(rnd, lines[number * each_lines : (number + 1) * each_lines], some[:4])
        arguments, body = (
            json.dumps({f"{each.name}{n}": each.stated for n, each in enumerate(part)})
            for part in (some[4:7], some[7:])
        )
        nested = json.dumps({"body": body})
        call = {"name": "run", "arguments": arguments, "input": nested, "ok": True, "n": rnd.randrange(10**9)}
        out.append({"call": call, "result": {"content": file, "size": len(file)}})
    return json.dumps(out, ensure_ascii=rnd.random() < 0.5, indent=rnd.choice([None, 2]))


def python_tracebacks(
    rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]
) -> str:
    del folder
    out = []
    for number, each in enumerate(planted or [None]):
        name, said = ("x", rnd.choice(lines)) if each is None else (each.name, each.stated)
        source = f"def connect(**options):\n    raise ConnectionError({said!r})\n\nconnect({name}={said!r})\n"
        file = f"/srv/app/module_{number}.py"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        try:
            exec(compile(source, file, "exec"), {})  # noqa: S102  # a traceback with source lines is wanted
        except ConnectionError:
            shown = traceback.format_exc()
        if each is not None and each.label.startswith(
            "ASSIGNMENT"
        ):  # the message alone does not say what it is
            shown = shown.replace(
                f"ConnectionError: {said}", f"ConnectionError: login failed, {name}={said!r}"
            )
            shown = shown.replace(f"raise ConnectionError({said!r})", "raise ConnectionError(message)")
        out.append(shown)
        out += rnd.sample(list(lines), min(20, len(lines)))
    return "\n".join(out)


def node_errors(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """Errors as Node prints them: the line, a caret, the stack, and the error's own fields."""
    del folder
    out = []
    for each in planted or [None]:
        name, said = ("x", rnd.choice(lines)) if each is None else (each.name, each.stated)
        shown = "'" + said.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        out.append(
            f"/srv/app/index.js:12\n  await connect({{ {name}: {shown} }});\n  ^\n\n"
            f"Error: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap.afterConnect [as oncomplete] "
            f"(node:net:1555:16) {{\n  errno: -111,\n  config: {{ {name}: {shown}, retries: 3 }}\n}}\n"
        )
        out += rnd.sample(list(lines), min(20, len(lines)))
    return "\n".join(out)


def markdown(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    del folder
    out = list(lines)
    for each in planted:
        said, name = each.stated, each.name
        forms = [
            f"- **{name}**: `{said}`",
            f"* {name}: {said}",
            f"**{name}:** {said}",
            f"> {name} = `{said}`",
        ]
        forms += [f"```\n{name}={said}\n```", f"1. Set `{name}` = `{said}`"]
        if "\n" in said:
            forms = [f"```\n{said}\n```", textwrap.indent(said, "> "), textwrap.indent(said, "    ")]
        elif not each.label.startswith("ASSIGNMENT"):
            forms += [f"_{said}_", f"**{said}**", f"| {name} | {said} |", f"[link]({said})", f"~~{said}~~"]
        out.insert(rnd.randrange(len(out) + 1), rnd.choice(forms))
    return "\n".join(out)


def notebook(rnd: random.Random, folder: Path, lines: Sequence[str], planted: Sequence[Secret]) -> str:
    """Format 4: sources and outputs are lists of lines."""
    del folder
    cells = []
    for at in range(0, max(len(planted), 1), 5):
        some = planted[at : at + 5]
        share = rnd.sample(list(lines), min(60, len(lines)))
        source = document(rnd, share, some[:3]).splitlines(keepends=True)
        printed = document(rnd, share[:10], some[3:]).splitlines(keepends=True)
        outputs = [{"name": "stdout", "output_type": "stream", "text": printed}]
        cells.append(
            {"cell_type": "code", "execution_count": at, "metadata": {}, "outputs": outputs, "source": source}
        )
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


CORPORA: dict[str, Format] = {
    "cat -n": cat,
    "grep -rn -C2": grep,
    "git diff": git_diff,
    "env": env,
    "docker compose logs": compose_logs,
    "kubectl get -o yaml": kubectl_yaml,
    "kubectl get -o json": kubectl_json,
    "JSON, also in strings": json_dump,
    "Python tracebacks": python_tracebacks,
    "Node errors": node_errors,
    "Markdown": markdown,
    "notebooks": notebook,
}
"""By name, what prints documents. The first four really run the tools."""


def left_of(secret: Secret, out: str, *, encoded: bool) -> list[str]:
    """What can still be read of a secret: runs of six letters and digits, or all of it if it has none."""
    text = base64.b64encode(secret.text.encode()).decode() if encoded else secret.text
    text = "\n".join(line for line in text.split("\n") if not line.startswith("-----"))
    runs = re.findall(r"[A-Za-z0-9]{6,}", text)
    if secret.label == "EMAIL" or not runs:  # its domain stands elsewhere as well
        runs = [text]
    # Digits also occur in longer numbers, such as the nanoseconds of a log.
    return [
        run
        for run in runs
        if run != "github"
        and re.search(rf"(?<!\d){re.escape(run)}(?!\d)" if run.isdigit() else re.escape(run), out)
    ]
