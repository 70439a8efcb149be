"""`hookgate redact allow HASH`: lets a finding stay, by its hash in the settings of the hooks that redact."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hookgate.hooks.policies.redact.options import HASH, HASH_REMEDY
from hookgate.hooks.settings import Hook
from hookgate.hooks.settings.editing import rewrite, with_allowed


def allow(redacting: Sequence[Hook], finding: str, name: str | None) -> int:
    """Add the hash of a finding to the option `allow` of hooks, and print where. Returns the exit code.

    With `name`, only hooks with this name are changed. Raises ValueError if the hash is invalid, if there is
    no such hook, or if a file cannot be written.
    """
    if not HASH.fullmatch(finding):
        raise ValueError(f"{finding!r} is not the hash of a finding; {HASH_REMEDY}")
    chosen = [hook for hook in redacting if name in (None, hook.name)]
    if not chosen:
        which = "" if name is None else f" {name!r}"
        raise ValueError(
            f"no hook{which} uses the policy redact; name its settings with --policy or --hooks, and trust "
            "those of a project first: hookgate hooks trust"
        )
    exit_code = 0
    for source in dict.fromkeys(hook.source for hook in chosen):
        hooks = [hook for hook in chosen if hook.source == source]
        names = ", ".join(dict.fromkeys(hook.name for hook in hooks))
        if source.is_file():
            _write(source, hooks, finding, names)
        else:
            exit_code = 1
            print(f'{source}: not a file; add "allow": ["{finding}"] to the options of {names}, and push it')
    return exit_code


def _write(path: Path, hooks: Sequence[Hook], finding: str, names: str) -> None:
    configured = {hook.config.name for hook in hooks}
    changed = rewrite(path, partial(with_allowed, names=configured, finding=finding))
    print(f"{path}: {names} {'lets' if changed else 'already lets'} {finding} stay")
    if changed and any(hook.needs_trust for hook in hooks):
        print("The hooks of a project must be trusted again: `hookgate hooks trust`.")
