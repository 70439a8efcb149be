"""Fields of OpenAI's bodies that are settings of generateContent, and back."""

from collections.abc import Mapping
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, camel, read, same

JSON_TYPE = "application/json"
_FORMATS = {"json_object": JSON_TYPE, "json_schema": JSON_TYPE}


class GenerationSettings:
    """The settings of one body, as a generationConfig."""

    def __init__(self, body: JsonObject, names: Mapping[str, str], wanted: Any, path: str, api: str) -> None:
        """Read the settings. Raises BodyError if they cannot be shown.

        Args:
            body: The body.
            names: The fields that are settings, with the names under which they are shown.
            wanted: The format of the answer for which the body asks, or None.
            path: The path of that format, for errors.
            api: What errors call an object of the API, such as "a chat completion".
        """
        self._body, self._names, self._api = body, names, api
        self.config: JsonObject = {}
        """The generationConfig; empty if the body has no settings."""
        for name, shown in names.items():
            value = body.get(name)
            if value is None:
                continue
            if shown in self.config:
                other = next(key for key in names if names[key] == shown)
                raise BodyError(name, f"the field is given twice, also as {other!r}; send it once")
            self.config[shown] = [value] if name == "stop" and isinstance(value, str) else value
        if not isinstance(wanted, dict | None):
            raise BodyError(path, "it must be an object, since hooks cannot inspect other types")
        if wanted and (media_type := _FORMATS.get(str(wanted.get("type")))):
            self.config["responseMimeType"] = media_type

    def encode(self, config: JsonObject) -> JsonObject:
        """Return the fields for an edited generationConfig. Raises BodyError for one without a field."""
        body = self._body
        new: JsonObject = {}
        for name, shown in self._names.items():
            if body.get(name) is None:
                continue
            value = read(config, shown)
            if value is not None:
                single = isinstance(body[name], str) and isinstance(value, list) and len(value) == 1
                unchanged = same(value, self.config.get(shown))
                new[name] = body[name] if unchanged else value[0] if single else value
        name_of = {shown: name for name, shown in self._names.items()}
        for key, value in config.items():
            name = name_of.get(camel(key), "")
            if camel(key) == "responseMimeType" or value is None:
                continue
            if not name:
                raise BodyError(f"config.{camel(key)}", f"{self._api} has no such setting")
            if body.get(name) is None and camel(key) not in self.config:
                new[name] = value
        return new

    def encode_format(self, config: JsonObject) -> tuple[bool, JsonObject | None]:
        """Return whether hooks changed the format of the answer, and the new one; None if it is text."""
        wanted = read(config, "responseMimeType")
        if wanted == self.config.get("responseMimeType"):
            return False, None
        if wanted not in (None, JSON_TYPE):
            raise BodyError("config.responseMimeType", f"{self._api} can only have {JSON_TYPE}")
        return True, None if wanted is None else {"type": "json_object"}
