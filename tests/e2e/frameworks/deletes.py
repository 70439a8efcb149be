"""LiteLLM: `main(base_url)` deletes an interaction. Prints a JSON line.

support/environments.py runs it.
"""

import json

import litellm


async def main(base_url: str) -> None:
    deleted = await litellm.interactions.adelete(
        "v1_1", custom_llm_provider="gemini", api_key="any", api_base=base_url
    )
    print(json.dumps(deleted.success))
