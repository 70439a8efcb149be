"""Like ask.py, with Antigravity's wire protocol `openai`: the base URL is that of chat completions.

support/environments.py runs it.
"""

import json
import re

from google.antigravity import Agent, types
from google.antigravity.connections.local import LocalOpenAIAgentConfig
from google.antigravity.hooks import policy


async def main(folder: str, prompt: str, base_url: str) -> None:
    config = LocalOpenAIAgentConfig(
        model="gemini-3.8-flash",
        base_url=base_url,
        workspaces=[folder],
        app_data_dir=folder,
        policies=[policy.allow_all()],
    )
    async with Agent(config) as agent:
        try:
            print(json.dumps({"text": await (await agent.chat(prompt)).text()}))
        except types.AntigravityConnectionError as error:
            status = re.search(r"Error (\d+)", str(error))
            shown = {"name": type(error).__name__, "status": status and status[1], "message": str(error)}
            print(json.dumps({"error": shown}))
