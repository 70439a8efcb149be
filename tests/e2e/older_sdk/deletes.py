"""google-genai 2: `main(base_url)` deletes one of each kind of resource. Prints a JSON line for each.

support/environments.py runs it.
"""

from google import genai
from google.genai import types


async def main(base_url: str) -> None:
    async with genai.Client(api_key="any", http_options=types.HttpOptions(base_url=base_url)).aio as client:
        for resource, name in [
            (client.caches, "cachedContents/1"),
            (client.batches, "batches/1"),
            (client.files, "files/1"),
            (client.file_search_stores, "fileSearchStores/1"),
        ]:
            await resource.delete(name=name)
            print(f'"{name}"')
