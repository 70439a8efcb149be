"""The policy `models`: routes calls to models, allows or denies models, and changes their settings.

As a BeforeModel hook it judges the model that is asked; as an AfterModel hook the one that has answered.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from hookgate.hooks.policies.armor_templates import TemplateName
from hookgate.hooks.policies.options import Globs, Options, matches_name, read_options
from hookgate.hooks.policies.system_text import with_instruction
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.session import UNREADABLE_MODEL, SessionContext
from hookgate.translator.fields import camel, read


def _one_model(value: str) -> str:
    """Return the value if it is the name of one model. Raises PydanticCustomError if it is not."""
    if set("*?[") & set(value):
        raise PydanticCustomError(
            "wildcard",
            "must be the name of one model, without wildcards; to replace several models, use "
            '"route" with "models" in its "when"',
        )
    if value.startswith("models/"):
        meant = value.removeprefix("models/")
        raise PydanticCustomError(
            "prefix", "must be the name without models/; write {meant}", {"meant": meant}
        )
    return value


def _one_setting(value: str) -> str:
    """Return the value if it is the name of one setting. Raises PydanticCustomError if it is not."""
    if not value.isidentifier():
        raise PydanticCustomError("wildcard", "must be the name of one key of generationConfig")
    return value


ModelName = Annotated[str, Field(min_length=1), AfterValidator(_one_model)]
"""The name of one model, which is compared or called as it is."""

SettingName = Annotated[str, AfterValidator(_one_setting)]
"""The name of a key of generationConfig."""


class RoutingCondition(Options):
    """A condition on calls. All keys that are set must match."""

    models: Globs | None = None
    """Models that the client requests, with wildcards."""

    keys: Globs | None = None
    """Names of API keys, with wildcards."""

    teams: Globs | None = None
    """Teams, with wildcards."""

    clients: Globs | None = None
    """Client programs, with wildcards."""

    characters_below: int | None = Field(default=None, ge=1)
    """All texts, with the system instruction but without calls, results and images, have fewer characters."""

    characters_above: int | None = Field(default=None, ge=0)
    """All texts, with the system instruction but without calls, results and images, have more characters."""

    tools: bool | None = None
    """Whether the request declares any tool, including the API's own."""

    def holds(self, request: Mapping[str, Any], session: SessionContext) -> bool:
        """Return whether the condition matches a call. `request` is the request in the view `raw`."""
        names = (
            (self.models, request["model"]),
            (self.keys, session.key),
            (self.teams, session.team),
            (self.clients, session.client),
        )
        if any(globs is not None and not matches_name(globs, name) for globs, name in names):
            return False
        if self.tools is not None and self.tools is not bool(request.get("tools")):
            return False
        return self._size_matches(request)

    def _size_matches(self, request: Mapping[str, Any]) -> bool:
        if self.characters_below is None and self.characters_above is None:
            return True
        size = sum(len(message["content"]) for message in request["messages"])
        above = self.characters_above is None or size > self.characters_above
        return above and (self.characters_below is None or size < self.characters_below)


class RoutingRule(Options):
    """A rule that routes calls to a model."""

    to: ModelName
    """The model that the call is routed to."""

    when: RoutingCondition = RoutingCondition()
    """The calls that the rule applies to; default: all."""


def route_model(rules: Iterable[RoutingRule], request: Mapping[str, Any], session: SessionContext) -> str:
    """Return the model of the first rule that matches the call, or else the requested model."""
    requested: str = request["model"]
    return next((rule.to for rule in rules if rule.when.holds(request, session)), requested)


class ModelArmorTemplates(Options):
    """The templates of Model Armor with which Vertex AI judges a call itself."""

    prompts: TemplateName
    """The template for the request."""

    answers: TemplateName
    """The template for the answer."""

    action: Literal["set", "require"] = "set"
    """Whether every call gets these templates, or a call is denied that does not name them."""

    def are_named_in(self, config: Any) -> bool:
        """Return whether a request's `modelArmorConfig` names these templates."""
        return isinstance(config, dict) and self.as_config() == {
            name: read(config, name) for name in ("promptTemplateName", "responseTemplateName")
        }

    def as_config(self) -> dict[str, str]:
        """Return the `modelArmorConfig` of a request."""
        return {"promptTemplateName": self.prompts, "responseTemplateName": self.answers}


_ARMORED = frozenset({"generateContent", "streamGenerateContent"})
"""The methods of Vertex AI that take the templates of Model Armor."""

_NOT_GENERATING = frozenset(
    {
        *("countTokens", "computeTokens", "embedContent", "batchEmbedContents", "createEmbedding"),
        *("createCachedContent", "updateCachedContent"),
    }
)
_NO_ARMOR = "{operation} is not allowed here: Vertex AI applies Model Armor only to generateContent."
_ARMOR_MISSING = "This call must name the templates of Model Armor that this gateway requires."

_FINDING = "model not allowed"
_ANSWERED = "The answer is withheld, because the model {model!r} gave it, which is not allowed here."
_NOT_ALLOWED = "The model {model!r} is not allowed here{instead}."


class ModelsOptions(Options):
    """The options of the policy `models`."""

    route: tuple[RoutingRule, ...] = Field(default=(), strict=False)
    """Rules that route calls to models. The first rule that matches applies; if none does, the requested
    model is called."""

    allow: Globs | None = None
    """Models that may be called in the end, with wildcards; default: all. Models of your own are named with
    their collection: `tunedModels/NAME`, `endpoints/NAME`."""

    deny: Globs = ()
    """Models that may not be called, even if `allow` lists them."""

    rename: Mapping[ModelName, ModelName] = Field(default={}, strict=False)
    """Models to call instead of others, applied after `route`. `allow` and `deny` apply to the new name."""

    answered_by: Literal["report", "refuse"] = "report"
    """What an AfterModel hook does if a model has answered that may not be called: add a finding to the
    receipt, or withhold the answer."""

    reason: str = ""
    """The reason that is given if a model is not allowed."""

    set: Mapping[SettingName, Any] = Field(default={}, strict=False)
    """Settings of generationConfig that every call gets; null removes a setting."""

    cap: Mapping[SettingName, float] = Field(default={}, strict=False)
    """Maximum values of numbers in generationConfig. They are also set where a call sets none, or sets
    `maxOutputTokens` or `candidateCount` to 0."""

    model_armor: ModelArmorTemplates | None = None
    """The templates of Model Armor for calls that are sent to Vertex AI."""

    instruct: str = ""
    """Text that is added once to the system instruction of every call."""


_COUNTS = ("maxOutputTokens", "candidateCount")
"""Settings for which the API may read 0 as its own maximum."""


def models_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    settings = read_options(ModelsOptions, options)

    def judge(event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        if event["hook_event_name"] == "AfterModel":
            return _judge_answer(settings, session.call_state.answered_by)
        if not session.call_state.runs_model:
            return None
        request = event["llm_request"]
        model = route_model(settings.route, request, session)
        model = settings.rename.get(model, model)
        own = session.call_state.own_model if model == request["model"] else ""
        if not _allowed(settings, own or model):
            instead = f"; allowed are {', '.join(settings.allow)}" if settings.allow else ""
            reason = settings.reason or _NOT_ALLOWED.format(model=own or model, instead=instead)
            return {"decision": "deny", "reason": reason}
        if reason := _armor_problem(settings.model_armor, request, session):
            return {"decision": "deny", "reason": settings.reason or reason}
        edit = _edit(settings, request, model)
        if settings.model_armor is not None and _is_armored(session):
            edit["modelArmorConfig"] = settings.model_armor.as_config()
        return {"hookSpecificOutput": {"llm_request": edit}} if edit else None

    return judge


def _is_armored(session: SessionContext) -> bool:
    """Return whether the call may be sent to a method that takes the templates of Model Armor."""
    state = session.call_state
    return "vertex" in state.apis and state.operation in _ARMORED


def _armor_problem(
    armor: ModelArmorTemplates | None, request: Mapping[str, Any], session: SessionContext
) -> str:
    """Return the reason why a call is denied because of Model Armor, or an empty string."""
    state = session.call_state
    if armor is None or "vertex" not in state.apis or state.operation in _NOT_GENERATING:
        return ""
    if state.operation not in _ARMORED:
        return _NO_ARMOR.format(operation=state.operation)
    named = armor.are_named_in(read(request.get("fields") or {}, "modelArmorConfig"))
    return "" if named or armor.action == "set" else _ARMOR_MISSING


def _judge_answer(options: ModelsOptions, model: str) -> dict[str, Any] | None:
    """Judge an answer by the model that it names as its own; empty if it names none."""
    if not model or (model != UNREADABLE_MODEL and _allowed(options, model)):
        return None
    if options.answered_by == "refuse":
        return {"decision": "deny", "reason": options.reason or _ANSWERED.format(model=model)}
    return {"hookSpecificOutput": {"findings": {_FINDING: 1}}}


def _allowed(options: ModelsOptions, model: str) -> bool:
    return (options.allow is None or matches_name(options.allow, model)) and not matches_name(
        options.deny, model
    )


def _edit(options: ModelsOptions, request: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the changes of the request: the model, the settings and the system instruction."""
    edit: dict[str, Any] = {"model": model} if model != request["model"] else {}
    forced = {camel(name): value for name, value in options.set.items()}
    config = {**forced, **_capped_settings(options.cap, {**request.get("config", {}), **forced})}
    if config:
        edit["config"] = config
    if options.instruct:
        edit["messages"] = with_instruction(request["messages"], options.instruct)
    return edit


def _capped_settings(caps: Mapping[str, float], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are too large or missing, at their maximum value."""
    capped = {}
    for name, maximum in ((camel(name), maximum) for name, maximum in caps.items()):
        value: Any = config.get(name)
        least = 1 if name in _COUNTS else -inf
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= maximum:
            capped[name] = int(maximum) if maximum.is_integer() else maximum
    return capped
