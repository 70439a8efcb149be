"""The SDK's pydantic models as JSON and back, and the objects beside them that no model knows."""

from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

import pydantic

from hookgate.translator.errors import BodyError
from hookgate.translator.fields import JsonObject, camel, read, spelling, without, write

Model = TypeVar("Model", bound=pydantic.BaseModel)


# ---- out of a model


def dump(model: pydantic.BaseModel, exclude: set[str] | None = None) -> JsonObject:
    """The model in camelCase without what is None; bytes as the API writes them, in standard base64."""
    dumped = model.model_dump(by_alias=True, exclude_none=True, exclude=exclude)
    return {key: _json(value) for key, value in dumped.items()}


def _json(value: Any) -> Any:
    """A dumped value as JSON; pydantic's own JSON mode would write URL-safe base64."""
    match value:
        case dict():
            return {key: _json(item) for key, item in value.items()}
        case list():
            return [_json(item) for item in value]
        case bytes():
            return b64encode(value).decode()
        case Enum():
            return value.value
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
    return value


# ---- into a model


def load(model: type[Model], value: Any, path: str) -> Model:
    """The value as a model; BodyError with the place, under `path`, of the first thing that does not fit."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"])
        message = f"google-genai's {model.__name__} does not take it: {problem['msg']}"
        raise BodyError(f"{path}{steps}".removeprefix("."), message) from error


def load_known(model: type[Model], value: Any) -> Model:
    """Like `load`, but fields that the model does not know are left out, however deep."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        for problem in error.errors():
            if problem["type"] == "extra_forbidden":
                value = _without(value, *problem["loc"])
    return load(model, value, "")


def _without(value: Any, step: str | int, *steps: str | int) -> Any:
    """A copy without the field at the end of the steps, which are camelCase names and indexes."""
    if isinstance(value, list):
        return [_without(item, *steps) if i == step else item for i, item in enumerate(value)]
    name = str(step)
    return write(value, name, _without(read(value, name), *steps)) if steps else without(value, name)


# ---- beside a model


def part_known(obj: JsonObject, names: Collection[str]) -> tuple[JsonObject, JsonObject]:
    """The fields of these names, in camelCase, and the others as they are."""
    known = {camel(key): value for key, value in obj.items() if camel(key) in names}
    return known, {key: value for key, value in obj.items() if camel(key) not in names}


def merged(body: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """Objects are merged and all else is replaced, in whichever spelling, as the SDK does."""
    body = dict(body)
    for key, value in extra.items():
        held = spelling(body, camel(key))
        if held not in body:
            body[key] = value
        elif isinstance(old := body[held], dict) and isinstance(value, Mapping):
            body[held] = merged(old, value)
        else:
            body[held] = value
    return body
