"""Starts the gateways of a team without containers: three behind nginx, with PostgreSQL and Prometheus.

`make team` runs it. It is for trying: everything is in one temporary folder, which is removed at the end, and
listens on loopback addresses that no other program uses, on ports that the system chooses. The configuration
is that of containers: deploy/team/hookgate.toml, nginx.conf and prometheus.yml, with other addresses.

PostgreSQL and nginx must be installed; on Debian: apt-get install postgresql nginx. No service of the system
is touched.
"""

import argparse
import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PROJECT = Path(__file__).parents[1]
SETTINGS = PROJECT / "deploy" / "team"
GATEWAYS = 3

_PATIENCE = 30.0
"""Seconds in which each program must have started."""

_STOP_SECONDS = 5.0
"""Seconds that nginx and others have to end; gateways finish their calls first."""


class TeamError(Exception):
    """Raised if a program is missing or does not start. The message has the remedy."""


def free_address(host: str | None = None) -> str:
    """Return a host and a free port on it; by default a loopback address that others are not likely to use.

    So a gateway finds its port free when it is started again.
    """
    host = host or ".".join(["127", *(str(random.randrange(1, 255)) for _ in range(3))])  # noqa: S311  # no secret
    with socket.create_server((host, 0)) as listener:
        return f"{host}:{listener.getsockname()[1]}"


def program(name: str, *folders: Path) -> Path:
    """Return the path of a program. Raises TeamError if it is not installed."""
    places = [*map(str, folders), *os.get_exec_path(), "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise TeamError(f"{name} is not installed; on Debian: apt-get install postgresql nginx")
    return Path(found)


class Service:
    """A program that runs until it is stopped. Its output is in a file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None  # noqa: S101  # it was started
        return self._process.pid

    async def run(
        self, command: Sequence[str | Path], env: Mapping[str, str] | None = None, user: str | None = None
    ) -> None:
        """Start the program, in a session of its own: Ctrl-C must reach this program alone."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_bound_to_this_process(user),
                *map(str, command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                cwd=self.log.parent,
                start_new_session=True,
            )

    async def until(self, url: str) -> None:
        """Wait until the program answers with 200. Raises TeamError if it ends instead, or takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while self._process is not None and self._process.returncode is None:
                    if await asyncio.to_thread(_answers, url):
                        return
                    await asyncio.sleep(0.05)
        raise TeamError(f"{self.log.stem} has not started:\n{self.log.read_text()[-2000:]}")

    def send(self, number: int) -> None:
        """Send a signal, if the program runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self, within: float | None = None) -> int:
        """Return the exit code once the program has ended. Raises TimeoutError."""
        assert self._process is not None  # noqa: S101  # it was started
        async with asyncio.timeout(within):
            return await self._process.wait()

    async def end(self, number: int = signal.SIGTERM) -> None:
        """End the program with a signal, or kill it if that takes too long."""
        if self._process is not None:
            self.send(number)
            try:
                await self.ended(_STOP_SECONDS)
            except TimeoutError:
                self.send(signal.SIGKILL)
                await self.ended()


def _bound_to_this_process(user: str | None) -> list[str]:
    """Return the beginning of a command that ends with this process, and runs as a user if one is given."""
    who = ["--reuid", user, "--regid", user, "--clear-groups"] if user else []
    return ["setpriv", *who, "--pdeathsig", "SIGINT", "--"]


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310  # loopback
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


class Postgres(Service):
    """A PostgreSQL server with a cluster of its own, and the database of the gateways."""

    def __init__(self, folder: Path, password_file: Path, address: str | None = None) -> None:
        super().__init__("postgres", folder)
        self.address = address or free_address()
        self._data, self._password_file = folder / "postgres", password_file
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self._folders = versions[::-1]
        self._user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root

    async def start(self) -> None:
        """Start the server; the first time on a new cluster. Raises TeamError."""
        if not self._data.exists():
            await self._create()
        host, port = self.address.split(":")
        options = {
            "listen_addresses": host,
            "port": port,
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        await self.run([self._program("postgres"), "-D", self._data, *flags], user=self._user)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while not await self._is_ready():  # noqa: ASYNC110  # a process
                    await asyncio.sleep(0.05)
                return
        raise TeamError(f"PostgreSQL has not started:\n{self.log.read_text()[-2000:]}")

    async def restart(self) -> None:
        """Restart the server at once: its connections are closed."""
        self.send(signal.SIGINT)
        await self.ended()
        await self.start()

    async def _create(self) -> None:
        password = self.log.parent / "password"  # that of the secrets, which this user could not read
        self._data.mkdir(mode=0o700)
        shutil.copy(self._password_file, password)
        password.chmod(0o400)
        if self._user:
            shutil.chown(self._data, self._user, self._user)
            shutil.chown(password, self._user)
        options = ["--username=hookgate", "--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"]
        creating = Service("initdb", self.log.parent)
        words = [self._program("initdb"), "--pgdata", self._data, "--no-sync", *options]
        await creating.run(words, user=self._user)
        if await creating.ended():
            raise TeamError(f"PostgreSQL's cluster was not created:\n{creating.log.read_text()[-2000:]}")
        password.unlink()

    async def _is_ready(self) -> bool:
        host, port = self.address.split(":")
        asking = Service("pg_isready", self.log.parent)
        await asking.run([self._program("pg_isready"), "-q", "-h", host, "-p", port])
        return await asking.ended() == 0

    def _program(self, name: str) -> Path:
        return program(name, *self._folders)


class Gateway(Service):
    """One of the gateways, with a state folder of its own.

    Changes of `env`, its environment variables, are in effect from its next start.
    """

    def __init__(self, number: int, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(f"gateway-{number}", folder)
        self.address, self.admin = free_address(), free_address()
        self.env = {
            **settings,
            "HOOKGATE_STATE": str(folder / f"state-{number}"),
            "HOOKGATE_LISTEN__ADDRESS": self.address,
            "HOOKGATE_ADMIN__ADDRESS": self.admin,
        }

    async def start(self) -> None:
        """Start the gateway, and return when it is ready. Raises TeamError."""
        words = [sys.executable, "-m", "hookgate.proxy", "serve"]
        await self.run(words, {**self.env, "PYTHONUNBUFFERED": "1"})
        await self.until(f"http://{self.admin}/readyz")

    async def restart(self) -> None:
        """Let the gateway finish its calls and end, and start it again. Raises TeamError."""
        self.send(signal.SIGTERM)
        if code := await self.ended():
            raise TeamError(f"{self.log.stem} ended with {code}:\n{self.log.read_text()[-2000:]}")
        await self.start()

    async def command(self, *words: str) -> str:
        """Return what a command such as `keys create` prints, with these settings. Raises TeamError."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hookgate.proxy", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.env},
        )
        out, err = await process.communicate()
        if process.returncode:
            raise TeamError(f"hookgate {' '.join(words)}: {err.decode()}")
        return out.decode().strip()


class Team:
    """The running setup."""

    def __init__(self, folder: Path, settings: Mapping[str, str], postgres: str | None = None) -> None:
        self.folder = folder
        self.secrets = folder / "secrets"
        self.postgres = Postgres(folder, self.secrets / "database-password", postgres)
        self.gateways = [Gateway(number, folder, settings) for number in range(1, GATEWAYS + 1)]
        self.nginx, self.prometheus = Service("nginx", folder), Service("prometheus", folder)
        self.address = free_address("127.0.0.1")  # to others, Gemini CLI does not send HTTP without TLS
        self.prometheus_address = free_address()

    @property
    def url(self) -> str:
        """Where clients call."""
        return f"http://{self.address}"

    def with_addresses(self, name: str) -> str:
        """Return a file of deploy/team with the addresses of this setup in place of those of containers."""
        text = (SETTINGS / name).read_text()
        for number, gateway in enumerate(self.gateways, 1):
            text = text.replace(f"gateway-{number}:8787", gateway.address)
            text = text.replace(f"gateway-{number}:9787", gateway.admin)
        return text.replace("listen 8080;", f"listen {self.address};")

    async def start_nginx(self) -> None:
        """Start nginx. Raises TeamError."""
        prefix = self.folder / "nginx"
        prefix.mkdir()
        file = self.folder / "nginx.conf"
        file.write_text(self.with_addresses("nginx.conf"))
        await self.nginx.run([program("nginx"), "-p", prefix, "-c", file, "-g", "daemon off;"])
        await _connected(self.address, self.nginx)

    async def start_prometheus(self) -> bool:
        """Start Prometheus, and return True, if it is installed. Raises TeamError if it does not start."""
        if shutil.which("prometheus") is None:
            return False
        file = self.folder / "prometheus.yml"
        file.write_text(self.with_addresses("prometheus.yml"))
        shutil.copy(PROJECT / "deploy" / "prometheus" / "alerts.yml", self.folder)
        where = [
            f"--web.listen-address={self.prometheus_address}",
            f"--storage.tsdb.path={self.folder}/metrics",
        ]
        await self.prometheus.run([program("prometheus"), f"--config.file={file}", *where])
        await self.prometheus.until(f"http://{self.prometheus_address}/-/ready")
        return True


async def _connected(address: str, service: Service) -> None:
    host, port = address.split(":")
    for _ in range(int(_PATIENCE / 0.05)):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TeamError(f"{service.log.stem} has not started:\n{service.log.read_text()[-2000:]}")


@asynccontextmanager
async def running_team(
    upstream: str | None = None,
    hooks: Path | None = None,
    *,
    postgres: str | None = None,
    database: str | None = None,
    policy: Path | None = None,
    **settings: str,
) -> AsyncIterator[Team]:
    """Start the setup, and stop it at the end of the block. Raises TeamError if something does not start.

    Args:
        upstream: The URL of the upstream in place of the Gemini API.
        hooks: The settings of hooks in place of those in deploy/hooks.
        postgres: The address of PostgreSQL; by default the system chooses one.
        database: The address at which the gateways reach PostgreSQL, if that is not its own.
        policy: The settings file that is pushed before the gateways start, which then follow pushes.
        settings: Further environment variables of the gateways.
    """
    with tempfile.TemporaryDirectory(prefix="hookgate-team-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL runs as a user of its own  # noqa: ASYNC240  # nothing else runs yet
        secrets = folder / "secrets"
        paths = {
            "HOOKGATE_ADMIN__TOKEN_FILE": "admin-token",
            "HOOKGATE_UPSTREAM__GEMINI_KEY_FILE": "gemini-key",
            "HOOKGATE_CLIENTS__PEPPER_FILE": "pepper",
            "HOOKGATE_STORE__URL_FILE": "store-url",
        }
        own = {variable: str(secrets / file) for variable, file in paths.items()}
        own["HOOKGATE_CONFIG"] = str(SETTINGS / "hookgate.toml")
        if upstream:
            own["HOOKGATE_UPSTREAM__GEMINI"] = upstream
        own["HOOKGATE_HOOKS__POLICY"] = str(hooks or PROJECT / "deploy" / "hooks" / "settings.json")
        if policy:
            own["HOOKGATE_HOOKS__DATABASE"] = "true"
        team = Team(folder, {**own, **settings}, postgres)
        creating = Service("secrets", folder)
        await creating.run([SETTINGS / "secrets.sh", secrets, database or team.postgres.address])
        if await creating.ended():
            raise TeamError(f"the secrets were not created:\n{creating.log.read_text()}")
        for number in range(1, GATEWAYS + 1):
            state = folder / f"state-{number}"
            state.mkdir(mode=0o700)
            shutil.copy(secrets / "redact.key", state)
        # PostgreSQL's own database is as good as another.
        url = secrets / "store-url"
        text = re.sub(r"/hookgate\n$", "/postgres\n", url.read_text())
        url.chmod(0o600)
        url.write_text(text)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(team.postgres.end, signal.SIGINT)
            await team.postgres.start()
            if policy:
                await team.gateways[0].command("policy", "push", str(policy))
            for gateway in team.gateways:
                stack.push_async_callback(gateway.end, signal.SIGKILL)
            stack.push_async_callback(team.nginx.end)
            await team.gateways[0].start()  # creates the tables
            await asyncio.gather(*(gateway.start() for gateway in team.gateways[1:]))
            await team.start_nginx()
            stack.push_async_callback(team.prometheus.end)
            yield team


_TEXT = """
{gateways} gateways behind nginx: {url}
  panels: {panels}
  their token: {token}
  metrics: {metrics}
  logs: {folder}/*.log

A key for a client, and a call with it:

  export {variables}
  key=$(hookgate keys create alice --team search --config {config})
  curl {url}/v1beta/models/gemini-2.5-flash:generateContent -H "x-goog-api-key: $key" \\
    -d '{{"contents": [{{"role": "user", "parts": [{{"text": "hi"}}]}}]}}'

Interns may only use the flash models, by the policy in {policy}. Change a copy, and push it
to all gateways:

  cp {policy} /tmp/policy.json
  hookgate policy push /tmp/policy.json --config {config}

{upstream}
Enter restarts the gateways, one after another. Ctrl-C ends everything.
"""


async def _try(arguments: argparse.Namespace) -> None:
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    async with AsyncExitStack() as stack:
        upstream, about = arguments.upstream, "Calls go to the Gemini API, with GEMINI_API_KEY."
        if upstream is None and "GEMINI_API_KEY" not in os.environ:
            upstream, about = (
                f"http://{free_address()}",
                "Without GEMINI_API_KEY, a mock upstream answers.",
            )
            embedded = Service("upstream", Path(stack.enter_context(tempfile.TemporaryDirectory())))
            stack.push_async_callback(embedded.end)
            words = ["-m", "hookgate.proxy", "mock-upstream", "--listen", upstream.removeprefix("http://")]
            await embedded.run([sys.executable, *words])
        team = await stack.enter_async_context(
            running_team(upstream, arguments.hooks, policy=arguments.policy)
        )
        has_prometheus = await team.start_prometheus()
        secrets = (
            "STORE__URL_FILE=store-url",
            "CLIENTS__PEPPER_FILE=pepper",
            "UPSTREAM__GEMINI_KEY_FILE=gemini-key",
        )
        pairs = [f"HOOKGATE_{pair.replace('=', f'={team.secrets}/')}" for pair in secrets]
        print(
            _TEXT.format(
                gateways=GATEWAYS,
                url=team.url,
                panels=" ".join(f"http://{gateway.admin}/" for gateway in team.gateways),
                token=team.secrets / "admin-token",
                metrics=f"http://{team.prometheus_address}/"
                if has_prometheus
                else "Prometheus is not installed; on Debian: apt-get install prometheus",
                folder=team.folder,
                variables=" ".join(pairs),
                config=SETTINGS / "hookgate.toml",
                policy=arguments.policy,
                upstream=about,
            ),
            flush=True,
        )
        restarting = asyncio.create_task(_restart_on_enter(team))
        await interrupted.wait()
        restarting.cancel()
        print("stopping", flush=True)


async def _restart_on_enter(team: Team) -> None:
    """Restart the gateways in turn whenever Enter is pressed."""
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 1024):  # there is no terminal
            loop.remove_reader(0)
            return
        pressed.set()

    try:
        loop.add_reader(0, read)
    except OSError:  # a file cannot be waited for
        return
    while True:
        await pressed.wait()
        for gateway in team.gateways:
            print(f"restarting {gateway.log.stem}", flush=True)
            await gateway.restart()
        print("all gateways have been restarted", flush=True)
        pressed.clear()


def main() -> None:
    """Run the setup until it is interrupted."""
    parser = argparse.ArgumentParser(description="Start three gateways behind nginx, with PostgreSQL.")
    parser.add_argument("--upstream", metavar="URL", help="an upstream in place of the Gemini API")
    parser.add_argument(
        "--hooks", metavar="FILE", type=Path, help="settings of hooks; by default there are none"
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=Path,
        default=PROJECT / "examples" / "team" / "settings.json",
        help="the settings that are pushed to all gateways (default: %(default)s)",
    )
    try:
        asyncio.run(_try(parser.parse_args()))
    except TeamError as error:
        sys.exit(f"team: {error}")


if __name__ == "__main__":
    main()
