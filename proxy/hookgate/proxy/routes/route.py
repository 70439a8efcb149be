"""Where a request goes. Pure."""

from dataclasses import dataclass, replace

from hookgate.proxy.routes.table import Api, Kind


@dataclass(frozen=True, slots=True)
class Route:
    """One request's way. `path` is the upstream's, without a session prefix; `query` is without the key."""

    kind: Kind
    path: str
    query: str = ""
    session: str = ""
    model: str = ""
    """The model in the path; empty where there is none, as for Code Assist, whose model is in the body."""
    verb: str = ""
    alt: str = ""
    key: str = ""
    """The client's key, if it came in the query: it goes upstream as a header, where no log shows it."""
    access_token: str = ""
    """The client's token in the query, which some WebSockets take: it goes upstream as it came."""
    api: Api = "gemini"
    small_body: bool = False
    """Whether the body is forwarded unseen and for that reason bounded."""
    unhooked: str = ""
    """The group by which an operator let this generative call through although no hook judges it."""

    @property
    def streamed(self) -> bool:
        return self.verb == "streamGenerateContent"

    def for_model(self, model: str) -> "Route":
        """The same call to another model. A tuned model or an endpoint gives way to a model of Google's."""
        if not self.model or model == self.model:
            return self
        collection = self.path.removesuffix(f"/{self.model}:{self.verb}")
        collection = collection.removesuffix("/tunedModels").removesuffix("/endpoints")
        if not collection.endswith("/models"):
            collection += "/publishers/google/models" if self.api == "vertex" else "/models"
        return replace(self, model=model, path=f"{collection}/{model}:{self.verb}")
