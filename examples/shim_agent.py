"""A custom agent that reports its session, turns and tools to a gateway's hooks.

python examples/shim_agent.py http://127.0.0.1:8787 "run date"
"""

import asyncio
import os
import sys

from hookgate.shim import Blocked, Shim, ToolDenied


def ask_model(prompt: str) -> str:
    """A stand-in for a model that wants a command run: the one that the prompt asks for."""
    return prompt.removeprefix("run ")


async def main(url: str, prompt: str) -> None:
    async with Shim(url, os.environ.get("GEMINI_API_KEY")) as shim, shim.session() as session:

        @session.guard
        async def run_shell_command(command: str) -> str:
            process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
            return (await process.communicate())[0].decode()

        async for attempt in session.attempts(prompt):
            command = ask_model(attempt.prompt)
            try:
                answer = await run_shell_command(command)
            except ToolDenied as denied:
                answer = str(denied)
            attempt.answer(answer)
        print(answer)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except Blocked as blocked:
        sys.exit(f"Not done: {blocked}")
