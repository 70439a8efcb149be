"""Other programs to compare with: nginx, LiteLLM and mitmproxy. Those that are not installed are skipped."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.payloads import FORBIDDEN
from benchmarks.processes import Server, cores, free_port, on_core, running

_NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 8m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  upstream origin {{ server {origin}; keepalive 512; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

_ADDON = f"""
from mitmproxy import http

class Judge:
    def request(self, flow):
        if b{FORBIDDEN!r} in flow.request.content:
            flow.response = http.Response.make(403, b"forbidden")

    def response(self, flow):
        if b{FORBIDDEN!r} in (flow.response.content or b""):
            flow.response = http.Response.make(403, b"forbidden")

addons = [Judge()]
"""

_LITELLM = """
model_list:
  - model_name: "*"
    litellm_params: {{model: "gemini/*", api_base: "{origin}/v1beta", api_key: benchmark}}
general_settings: {{dangerously_permit_weak_or_unset_master_key: true}}
litellm_settings:
  callbacks: judge.judge
"""

_JUDGE = f"""
from litellm.integrations.custom_logger import CustomLogger

class Judge(CustomLogger):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        if {FORBIDDEN!r} in str((data.get("contents") or data.get("messages") or [""])[-1]):
            return "forbidden"
        return data

judge = Judge()
"""


def missing_nginx() -> str:
    """Return the reason why nginx cannot be measured, or an empty string."""
    return "" if shutil.which("nginx") else "nginx is not installed; on Debian: apt-get install nginx-light"


def missing_litellm() -> str:
    """Return the reason why LiteLLM cannot be measured, or an empty string."""
    return (
        "" if shutil.which("litellm") else "`litellm` is not on the PATH; it needs an environment of its own"
    )


def missing_mitmproxy() -> str:
    """Return the reason why mitmproxy cannot be measured, or an empty string."""
    return (
        ""
        if shutil.which("mitmdump")
        else "`mitmdump` is not on the PATH; it needs an environment of its own"
    )


@contextlib.contextmanager
def nginx(origin: str, folder: Path) -> Iterator[Server]:
    """Start nginx as a proxy that reuses its upstream connections and does not buffer on disk."""
    port = free_port()
    path = folder / "nginx.conf"
    path.write_text(_NGINX.format(folder=folder, port=port, origin=origin.removeprefix("http://")))
    with running(["nginx", "-c", str(path), "-p", str(folder)], port) as server:
        yield server


@contextlib.contextmanager
def mitmproxy(origin: str, folder: Path) -> Iterator[Server]:
    """Start mitmproxy as a reverse proxy with an addon that reads every request and answer."""
    port = free_port()
    (folder / "judge.py").write_text(_ADDON)
    words = ["--quiet", "--mode", f"reverse:{origin}", "--listen-host", "127.0.0.1", "-p", str(port)]
    with running(["mitmdump", *words, "-s", str(folder / "judge.py")], port) as server:
        yield server


@contextlib.contextmanager
def litellm(origin: str, folder: Path) -> Iterator[Server]:
    """Start the proxy of LiteLLM with a callback that reads every request."""
    port = free_port()
    (folder / "judge.py").write_text(_JUDGE)
    path = folder / "config.yaml"
    path.write_text(_LITELLM.format(origin=origin))
    words = ["--config", str(path), "--host", "127.0.0.1", "--port", str(port)]
    with running(["litellm", *words], port, {"LITELLM_LOG": "ERROR"}) as server:
        yield server


@contextlib.contextmanager
def hook_service() -> Iterator[str]:
    """Start a hook that is an HTTP service, on the core of the upstream, and yield its URL."""
    port = free_port()
    argv = [sys.executable, "-m", "benchmarks.gateway.traffic.hook_service", str(port)]
    with on_core(argv, port, cores()[0]) as server:
        yield f"{server.url}/"
