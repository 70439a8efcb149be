"""The hooks of a gateway: loaded and watched from files, and followed in the database."""

from hookgate.proxy.policy.loading import (
    ConfiguredHooks,
    describe_hooks,
    hook_warnings,
    load_policy,
    log_start,
    read_configured_hooks,
    read_status,
    running_policy,
    settings_out_of_force,
    switch,
    switch_all,
    switch_text,
    warn_of_hooks,
)
from hookgate.proxy.policy.pushed import PushedPolicy, open_pushed_policy, read_all_sources

__all__ = [
    "ConfiguredHooks",
    "PushedPolicy",
    "describe_hooks",
    "hook_warnings",
    "load_policy",
    "log_start",
    "open_pushed_policy",
    "read_all_sources",
    "read_configured_hooks",
    "read_status",
    "running_policy",
    "settings_out_of_force",
    "switch",
    "switch_all",
    "switch_text",
    "warn_of_hooks",
]
