"""Errors about invalid options of policies name the place and the remedy."""

from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import write_file

from hookgate.hooks import SettingsError, load_settings
from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.hooks.runner_factory import make_runners

Json = dict[str, Any]
RULE = {"per": "key", "window": "day"}
LARGE = "a{1,1000}" * 100
ONE_MODEL = (
    "must be the name of one model, without wildcards; to replace several models, use "
    '"route" with "models" in its "when"'
)


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        pytest.param(
            "redact", {"acton": "mask"}, "acton: is not known here; did you mean action?", id="misspelt"
        ),
        pytest.param(
            "models",
            {"route": [{"to": "x", "when": {"qq": 1}}]},
            "route.0.when.qq: is not known here; known are "
            "characters_above, characters_below, clients, keys, models, teams, tools",
            id="nothing near",
        ),
        pytest.param(
            "tools",
            {"deny": [{"when": {"/x": {"equal": 1}}}]},
            "deny.0.when./x.equal: is not known here; did you mean equals?",
            id="within a mapping",
        ),
        pytest.param(
            "tools",
            {"deny": [{"when": {"/x": {"runs": {"programm": "rm"}}}}]},
            "deny.0.when./x.runs.programm: is not known here; did you mean program?",
            id="misspelt and missing",
        ),
        pytest.param(
            "tools",
            {"deny": [{"when": {"/x": {"runs": "rm"}}}]},
            "deny.0.when./x.runs: must be an object",
            id="no object",
        ),
        *(
            pytest.param(
                policy,
                options,
                f"{place} is not a valid RE2 pattern: pattern too large - compile failed; with its repeats "
                "written out, it may have about 8,000 characters",
                id=f"a pattern that would take seconds to compile: {policy} {place}",
            )
            for policy, options, place in (
                ("tools", {"deny": [{"pattern": LARGE}]}, "deny.0.pattern:"),
                ("tools", {"deny": [{"when": {"/x": {"matches": LARGE}}}]}, "deny.0.when./x.matches:"),
                ("redact", {"patterns": {"TICKET": LARGE}}, "patterns: the pattern of TICKET"),
            )
        ),
        pytest.param(
            "tools",
            {"deny": [{"pattern": "[a-"}]},
            "deny.0.pattern: is not a valid RE2 pattern: missing ]: [a-",
            id="RE2",
        ),
        pytest.param(
            "tools",
            {"deny": [{"pattern": "{0}("}]},
            "deny.0.pattern: is not a valid RE2 pattern: no argument for repetition operator: {0}",
            id="braces",
        ),
        pytest.param(
            "cassette",
            {"ignore": ["contents"]},
            "ignore.0: must be a JSON Pointer, which begins with /",
            id="pointer",
        ),
        pytest.param(
            "limits",
            {"rules": [RULE]},
            "rules.0: has no limit; set requests, tokens or cost",
            id="no follow-up",
        ),
        pytest.param("limits", {"rules": []}, "rules: is empty", id="empty"),
        pytest.param(
            "tools", {}, "has no effect; set allow, deny, ask, hosted, hosts or pin", id="no options"
        ),
        pytest.param(
            "tools", {"deny": []}, "has no effect; set allow, deny, ask, hosted, hosts or pin", id="no rules"
        ),
        pytest.param(
            "models",
            {"rename": {"gemini-*-pro": "gemini-2.5-flash"}},
            f"rename.gemini-*-pro: {ONE_MODEL}",
            id="wildcard in a name to replace",
        ),
        pytest.param(
            "models", {"rename": {"a": "b-*"}}, f"rename.a: {ONE_MODEL}", id="wildcard in a new name"
        ),
        pytest.param(
            "models", {"route": [{"to": "x-?"}]}, f"route.0.to: {ONE_MODEL}", id="wildcard in a route"
        ),
        pytest.param(
            "models",
            {"route": [{"to": "models/x"}]},
            "route.0.to: must be the name without models/; write x",
            id="prefix",
        ),
        pytest.param(
            "models",
            {"cap": {"max*": 1}},
            "cap.max*: must be the name of one key of generationConfig",
            id="cap",
        ),
        pytest.param(
            "models", {"set": {"*": 1}}, "set.*: must be the name of one key of generationConfig", id="set"
        ),
        pytest.param(
            "tools",
            {"deny": [{"when": {"command": {}}}]},
            "deny.0.when.command: must be a JSON Pointer, which begins with /",
            id="pointer as a key",
        ),
        pytest.param(
            "redact",
            {"patterns": {"KEY": "[a-", "FINE": "x", "CODE": "(a)(b)"}, "words": {"A_B": [], "lower": "x"}},
            "patterns: the pattern of KEY is not a valid RE2 pattern: missing ]: [a-; "
            "the pattern of CODE has 2 groups: write (?:…) for all but one; "
            "words: A_B needs words, none of them empty; "
            "'lower' is not a valid kind: use 2 to 24 capitals, digits and underscores, a capital first",
            id="several definitions",
        ),
        pytest.param("redact", {"cap": 1}, "cap: must be at least 256", id="too small"),
        pytest.param(
            "redact",
            {"detect": ["emial"]},
            "detect: unknown detector 'emial'; did you mean EMAIL?",
            id="detector",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_was_meant(
    policy: str, options: Json, expected: str
) -> None:
    with pytest.raises(ValueError, match=r".*") as error:
        BUILTINS[policy](options, PolicyEnvironment(Path("/")))
    assert str(error.value) == expected


def test_file_line_event_and_hook_are_named(tmp_path: Path) -> None:
    text = """{"hooks": {"BeforeModel": [{"hooks": [
      // not this one
      {"type": "builtin", "builtin": "models"},
      {"name": "no-secrets", "type": "builtin", "builtin": "redact", "options": {"acton": "mask"}}]}]}}
    """
    path = write_file(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        make_runners(load_settings([path]).hooks())
    reported = "the BeforeModel hook 'no-secrets': options: acton: is not known here; did you mean action?"
    assert str(error.value) == f"{path}:4: {reported}"


@pytest.mark.parametrize(
    ("policy", "event", "events"),
    [
        ("tools", "BeforeModel", "BeforeToolSelection or BeforeTool"),
        ("limits", "AfterModel", "BeforeModel"),
        ("models", "BeforeTool", "BeforeModel"),
    ],
)
def test_a_policy_under_an_event_that_it_does_not_judge_is_a_mistake(
    policy: str, event: str, events: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, {"hooks": {event: [{"hooks": [{"type": "builtin", "builtin": policy}]}]}})
    with pytest.raises(SettingsError) as error:
        make_runners(load_settings([path]).hooks())
    assert f"the policy {policy!r} does not judge this event; use {events}" in str(error.value)


def route_when(**condition: int) -> Json:
    return {"route": [{"to": "m", "when": condition}]}


@pytest.mark.parametrize(
    ("policy", "taken", "refused"),
    [
        ("models", route_when(characters_below=1), route_when(characters_below=0)),
        ("models", route_when(characters_above=0), route_when(characters_above=-1)),
        ("redact", {"cap": 256}, {"cap": 255}),
        ("redact", {"cap": 1_000_000}, {"cap": 1_000_001}),
        ("redact", {"limit": 1}, {"limit": 0}),
        ("limits", {"rules": [{**RULE, "requests": 1}]}, {"rules": [{**RULE, "requests": 0}]}),
        ("limits", {"rules": [{**RULE, "tokens": 1}]}, {"rules": [{**RULE, "tokens": 0}]}),
        ("limits", {"rules": [{**RULE, "requests": 1}]}, {"rules": []}),
        ("tools", {"allow": []}, {"allow": None}),
        ("tools", {"pin": "flag"}, {"pin": None}),
        ("tools", {"deny": [{}]}, {"deny": []}),
    ],
)
def test_a_bound_itself_is_taken_and_what_is_beyond_it_refused(
    policy: str, taken: Json, refused: Json
) -> None:
    BUILTINS[policy](taken, PolicyEnvironment(Path()))
    with pytest.raises(ValueError, match=next(iter(refused))):
        BUILTINS[policy](refused, PolicyEnvironment(Path()))
