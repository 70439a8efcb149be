"""google-genai, whose automatic function calling runs through a gateway's hooks.

GEMINI_API_KEY=… python examples/shim_genai.py http://127.0.0.1:8787 "What is the weather in Oslo?"
"""

import sys

from google import genai

from hookgate.shim.genai import instrument


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"storm in {city}"


def main(url: str, prompt: str) -> None:
    client = genai.Client()
    with instrument(client, url):
        chat = client.chats.create(model="gemini-3.8-flash", config={"tools": [get_weather]})
        print(chat.send_message(prompt).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
