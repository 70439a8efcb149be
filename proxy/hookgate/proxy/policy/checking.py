"""Checks a policy before it is pushed, as a gateway would read it."""

from pathlib import Path

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.errors import Problem
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runners.inprocess import PriceTable
from hookgate.hooks.settings import Hook, NumberedText, RuntimeConfig, SettingsSource, read_sources
from hookgate.proxy.policy.pushed import ROOT


def check_policy(
    path: Path, text: str, state: Path, prices: PriceTable | None, *, scripts_elsewhere: bool
) -> tuple[Configuration, tuple[Problem, ...]]:
    """Return the configuration of a policy, and its warnings. `path` names it in messages.

    With `scripts_elsewhere`, programs and scripts need not exist on this machine, and functions are not
    loaded. Raises SettingsError with every problem.
    """
    source = SettingsSource(path, "policy", ROOT, revision=NumberedText(0, text))
    loaded = read_sources([source])
    problems = [
        str(problem) for problem in loaded.problems if not (scripts_elsewhere and problem.breaks_hook)
    ]

    def refusal(hook: Hook) -> str | None:
        is_elsewhere = scripts_elsewhere and isinstance(hook.config, RuntimeConfig)
        return "its function is on other machines" if is_elsewhere else None

    configuration = loaded.configuration
    try:
        make_runners(
            configuration.hooks(),
            trust_check=refusal,
            http_targets=configuration.http_targets,
            state=state,
            prices=prices,
        )
    except SettingsError as error:
        problems += str(error).splitlines()
    if problems:
        raise SettingsError("\n".join(problems))
    return configuration, loaded.warnings
