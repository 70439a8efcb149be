"""An agent of google-adk with the plugin that may use the shell and read files, at a gateway's URL.

It prints its last words. support/environments.py runs it.
"""

import subprocess
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

from hookgate.shim.adk import HookgatePlugin


def run_shell_command(command: str) -> str:
    """Run a command in the shell."""
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602  # a shell tool
    return ran.stdout


def read_file(file_path: str) -> str:
    """Read a file."""
    return Path(file_path).read_text()


async def main(url: str) -> None:
    model = Gemini(model="gemini-2.5-flash", base_url=url)
    agent = LlmAgent(name="helper", model=model, tools=[run_shell_command, read_file])
    runner = InMemoryRunner(agent=agent, app_name="app", plugins=[HookgatePlugin(url)])
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="s-1")
    message = types.UserContent("clean up, then read")
    async for event in runner.run_async(user_id="u", session_id="s-1", new_message=message):
        for part in event.content.parts if event.content else []:
            if part.text:
                print(part.text)
    await runner.close()
