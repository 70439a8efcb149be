"""The gateway treats each method of google-genai's client as the docs say."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import httpx2
import pytest
from google import genai
from google.auth.credentials import Credentials
from google.genai import types
from support.gateway.routes import treatment
from support.places import DOCS

pytestmark = pytest.mark.filterwarnings("ignore")  # of methods that are experimental

Method = Callable[..., Any]
BLOB = types.Image(image_bytes=b"x", mime_type="image/png")
FILE = {"mime_type": "text/plain"}
INLINED = [types.InlinedRequest(contents=[types.Content(parts=[types.Part(text="hi")])])]
EMBEDDED = types.EmbeddingsBatchJobSource(
    inlined_requests=types.EmbedContentBatch(contents=[types.Content(parts=[types.Part(text="hi")])])
)

CALLS: dict[str, Method] = {
    "models.generate_content": lambda c: c.models.generate_content(model="m", contents="hi"),
    "models.generate_content_stream": lambda c: list(
        c.models.generate_content_stream(model="m", contents="hi")
    ),
    "models.count_tokens": lambda c: c.models.count_tokens(model="m", contents="hi"),
    "models.compute_tokens": lambda c: c.models.compute_tokens(model="m", contents="hi"),
    "models.embed_content": lambda c: c.models.embed_content(model="gemini-embedding-001", contents="hi"),
    "models.generate_images": lambda c: c.models.generate_images(model="m", prompt="hi"),
    "models.edit_image": lambda c: c.models.edit_image(
        model="m",
        prompt="hi",
        reference_images=[types.RawReferenceImage(reference_id=1, reference_image=BLOB)],
    ),
    "models.upscale_image": lambda c: c.models.upscale_image(model="m", image=BLOB, upscale_factor="x2"),
    "models.recontext_image": lambda c: c.models.recontext_image(
        model="m", source=types.RecontextImageSource(prompt="hi")
    ),
    "models.segment_image": lambda c: c.models.segment_image(
        model="m", source=types.SegmentImageSource(image=BLOB)
    ),
    "models.generate_videos": lambda c: c.models.generate_videos(model="m", prompt="hi"),
    "models.get": lambda c: c.models.get(model="m"),
    "models.list": lambda c: list(c.models.list()),
    "models.update": lambda c: c.models.update(model="tunedModels/m", config={"description": "hi"}),
    "models.delete": lambda c: c.models.delete(model="tunedModels/m"),
    "caches.create": lambda c: c.caches.create(model="m", config={"contents": "hi"}),
    "caches.update": lambda c: c.caches.update(name="cachedContents/1", config={"ttl": "60s"}),
    "caches.get": lambda c: c.caches.get(name="cachedContents/1"),
    "caches.list": lambda c: list(c.caches.list()),
    "caches.delete": lambda c: c.caches.delete(name="cachedContents/1"),
    "batches.create": lambda c: c.batches.create(
        model="m",
        src="gs://b/o" if c.vertexai else INLINED,
        config={"dest": "gs://b/d"} if c.vertexai else {},
    ),
    "batches.create_embeddings": lambda c: c.batches.create_embeddings(model="m", src=EMBEDDED),
    "batches.get": lambda c: c.batches.get(name=_batch(c)),
    "batches.list": lambda c: list(c.batches.list()),
    "batches.cancel": lambda c: c.batches.cancel(name=_batch(c)),
    "batches.delete": lambda c: c.batches.delete(name=_batch(c)),
    "tunings.tune": lambda c: c.tunings.tune(
        base_model="m",
        training_dataset={"gcs_uri": "gs://b/o"}
        if c.vertexai
        else {"examples": [{"text_input": "hi", "output": "ho"}]},
    ),
    "tunings.get": lambda c: c.tunings.get(name=_tuning(c)),
    "tunings.list": lambda c: list(c.tunings.list()),
    "tunings.cancel": lambda c: c.tunings.cancel(name=_tuning(c)),
    "tunings.validate_reward": lambda c: c.tunings.validate_reward(
        parent="projects/p/locations/l",
        sample_response=types.Content(parts=[types.Part(text="hi")]),
        example=types.ReinforcementTuningExample(),
        single_reward_config=types.SingleReinforcementTuningRewardConfig(),
    ),
    "files.upload": lambda c: c.files.upload(file=__file__, config=FILE),
    "files.register_files": lambda c: c.files.register_files(auth=_Login(), uris=["gs://b/o"]),
    "files.get": lambda c: c.files.get(name="files/1"),
    "files.list": lambda c: list(c.files.list()),
    "files.download": lambda c: c.files.download(file="files/1"),
    "files.delete": lambda c: c.files.delete(name="files/1"),
    "file_search_stores.create": lambda c: c.file_search_stores.create(config={"display_name": "hi"}),
    "file_search_stores.get": lambda c: c.file_search_stores.get(name="fileSearchStores/1"),
    "file_search_stores.list": lambda c: list(c.file_search_stores.list()),
    "file_search_stores.delete": lambda c: c.file_search_stores.delete(name="fileSearchStores/1"),
    "file_search_stores.import_file": lambda c: c.file_search_stores.import_file(
        file_search_store_name="fileSearchStores/1", file_name="files/1"
    ),
    "file_search_stores.upload_to_file_search_store": lambda c: (
        c.file_search_stores.upload_to_file_search_store(
            file_search_store_name="fileSearchStores/1", file=__file__, config=FILE
        )
    ),
    "file_search_stores.download_media": lambda c: c.file_search_stores.download_media(
        media_id="fileSearchStores/1/media/1"
    ),
    "file_search_stores.documents.get": lambda c: c.file_search_stores.documents.get(
        name="fileSearchStores/1/documents/1"
    ),
    "file_search_stores.documents.list": lambda c: list(
        c.file_search_stores.documents.list(parent="fileSearchStores/1")
    ),
    "file_search_stores.documents.delete": lambda c: c.file_search_stores.documents.delete(
        name="fileSearchStores/1/documents/1"
    ),
    "operations.get": lambda c: c.operations.get(
        types.GenerateVideosOperation(
            name="projects/p/locations/l/publishers/google/models/m/operations/1"
            if c.vertexai
            else "models/m/operations/1"
        )
    ),
    "auth_tokens.create": lambda c: c.auth_tokens.create(config={"uses": 1}),
    "interactions.create": lambda c: c.interactions.create(model="m", input="hi"),
    "interactions.get": lambda c: c.interactions.get("i"),
    "interactions.cancel": lambda c: c.interactions.cancel("i"),
    "interactions.delete": lambda c: c.interactions.delete("i"),
    "interactions.auth_tokens.create": lambda c: c.interactions.auth_tokens.create("i"),
    "interactions.auth_tokens.delete": lambda c: c.interactions.auth_tokens.delete("i", "t"),
    "decisions.create": lambda c: c.decisions.create(
        model="models/m", input="hi", questions={"q": {"type": "noul", "instructions": "ok?"}}
    ),
}
"""A call of each method. Those of OTHERS are not called."""

OTHERS = {
    "chats": "calls models.generate_content",
    **dict.fromkeys(("agents", "credentials", "environments"), "agents"),
    **dict.fromkeys(("triggers", "voices", "webhooks"), "agents"),
    "live": "live",
    "interactions.connect": "refused",
}
"""What the docs say in words: a method without a call of its own, and collections of one group of routes."""


NO_CALLS = (
    *("do_request", "do_request_async", "parent_ref", "sdk_configuration", "vertexai"),
    *("with_raw_response", "with_streaming_response"),
)
"""Attributes of collections that are no methods of an API."""


def _batch(client: genai.Client) -> str:
    return "projects/p/locations/l/batchPredictionJobs/1" if client.vertexai else "batches/1"


def _tuning(client: genai.Client) -> str:
    return "projects/p/locations/l/tuningJobs/1" if client.vertexai else "tunedModels/1"


class _Login(Credentials):  # type: ignore[no-untyped-call,misc]  # the library has no types
    def __init__(self) -> None:
        super().__init__()
        self.token = "any"  # noqa: S105  # no secret

    def refresh(self, request: Any) -> None:
        pass


class Both:
    """A client of each API, whose requests are noted and get an empty answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        transport = httpx2.MockTransport(self._answer)
        options = types.HttpOptions(base_url="http://gate", httpx_client=httpx2.Client(transport=transport))
        place = {"project": "p", "location": "l", "credentials": _Login()}
        self.clients = (
            genai.Client(api_key="k", http_options=options),
            genai.Client(vertexai=True, **place, http_options=options),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append((request.method, request.url.raw_path.decode()))
        upload = {"x-goog-upload-url": "http://gate/upload/v1beta/files?upload_id=1"}
        return httpx2.Response(200, json={}, headers={**upload, "x-goog-upload-status": "final"})

    def treatments(self, method: str) -> list[str]:
        """The treatments of a method's first request, by each API; a dash if there is none."""
        found = []
        for client in self.clients:
            self.sent.clear()
            try:
                CALLS[method](client)
            except Exception as error:  # of the empty answer, or because the API lacks the method
                if not self.sent and not isinstance(error, ValueError):
                    raise
            found.append(treatment(*self.sent[0]) if self.sent else "–")
        return found


@pytest.fixture(scope="module")
def both() -> Both:
    return Both()


def methods(client: Any) -> set[str]:
    """The names of all methods of the client's collections, and of the collections in these."""
    found = set()
    for name in dir(client):
        if name.startswith("_") or name in ("aio", "close", "aclose", *NO_CALLS):
            continue
        attribute = getattr(client, name)
        if name in OTHERS or inspect.isroutine(attribute):
            found.add(name)
        elif not isinstance(attribute, type | TypeVar):
            found |= {f"{name}.{method}" for method in methods(attribute)}
    return found


def test_every_method_of_the_client_is_here(both: Both) -> None:
    client = both.clients[0]
    assert methods(client) | methods(client.aio) == {*CALLS, *OTHERS}


@pytest.mark.parametrize("method", CALLS)
def test_the_docs_say_what_becomes_of_each_method(method: str, both: Both) -> None:
    row = f"| `{method}` | {' | '.join(both.treatments(method))} |"
    assert row in (DOCS / "sdk-methods.md").read_text()


@pytest.mark.parametrize("name", [name for name, group in OTHERS.items() if group == "agents"])
def test_every_path_of_a_collection_is_in_its_group(name: str) -> None:
    for method, path in (
        ("POST", f"/v1/{name}"),
        ("GET", f"/v1beta/{name}/1"),
        ("POST", f"/v1/{name}/1:run"),
    ):
        assert treatment(method, path) == f"`{OTHERS[name]}`"


def test_the_docs_have_no_other_methods() -> None:
    section = (
        (DOCS / "sdk-methods.md")
        .read_text()
        .partition("\n## Methods of google-genai\n")[2]
        .partition("\n#")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [*CALLS]
    for name in OTHERS:
        assert f"`{name}`" in section
