"""`hooks doctor`: every hook once, on a harmless event, and what is found on the way."""

from dataclasses import dataclass, replace

from hookgate.hooks import AfterTool, BeforeTool, Event, Run, Session, SettingsError
from hookgate.hooks.clock import Deadline, StallClock
from hookgate.hooks.events.reading import SAMPLES
from hookgate.hooks.kinds.builtin import PriceTable
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.queueing import FairQueue
from hookgate.hooks.running import Running
from hookgate.hooks.settings import KNOWN_TOOLS, Group, Hook, HttpConfig, Subject
from hookgate.proxy.managing.loading import Hooks, read_hooks
from hookgate.proxy.sources import Sources
from hookgate.proxy.wording import counted

SLOW = 0.2
"""Seconds beyond which a hook is felt in a conversation; a Python script takes about 0.05."""

_SESSION = Session("hookgate-doctor")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one hook, or a file, gives reason to say; `bad` when it will not work as it stands."""

    message: str
    bad: bool = True


async def examine(sources: Sources, prices: PriceTable | None) -> int:
    """Print a line for every hook and finding; 1 when anything will not work."""
    hooks = read_hooks(sources, partly=True)
    findings = [Finding(str(problem)) for problem in (*hooks.loaded.problems, *hooks.loaded.ignored)]
    findings += [Finding(str(warning), bad=False) for warning in hooks.loaded.warnings]
    configuration = hooks.loaded.configuration
    for groups in configuration.groups.values():
        for group in groups:
            findings += _matching(group)
            for hook in group.hooks:
                findings += await _examined(hook, _harmless(group, hook.event), hooks, prices)
    for finding in findings:
        print(f"{'FAIL' if finding.bad else 'note'}  {finding.message}")
    bad = sum(finding.bad for finding in findings)
    examined = len(configuration.hooks())
    found = counted(bad, "finding that needs", "findings that need")
    print(f"{counted(examined, 'hook')} examined, {found} work.")
    return 1 if bad else 0


def _matching(group: Group) -> list[Finding]:
    hint = group.matcher.hint()
    if hint is None:
        return []
    names = ", ".join(repr(hook.name) for hook in group.hooks)
    return [
        Finding(
            f"{group.hooks[0].source}: {group.hooks[0].event}: the matcher {group.matcher.pattern!r} matches "
            f"no tool of Gemini CLI's, so {names} may never run; {hint!r} was probably meant"
        )
    ]


def _harmless(group: Group, event: str) -> Event:
    """The event's sample; a tool event is about a tool that the group's matcher takes, if one is known."""
    sample = SAMPLES[event]
    candidates = (*KNOWN_TOOLS, group.matcher.pattern)
    tool = next((name for name in candidates if group.matcher.matches(Subject(tools=(name,)))), None)
    return replace(sample, tool_name=tool) if tool and isinstance(sample, BeforeTool | AfterTool) else sample


async def _examined(hook: Hook, event: Event, hooks: Hooks, prices: PriceTable | None) -> list[Finding]:
    about = f"{hook.event} hook {hook.name!r} ({hook.source})"
    if (reason := hooks.trust.refusal(hook)) is not None:
        return [Finding(f"{about} {reason}")]
    try:
        targets = hooks.loaded.configuration.http_targets
        runners = make_runners([hook], http_targets=targets, prices=prices)
    except SettingsError as error:
        return [Finding(str(error))]
    try:
        running = Running(runners, FairQueue(1), lambda _: None)
        run = await running.run(hook, event, (), _SESSION, Deadline(StallClock(), float("inf")))
    finally:
        await runners[hook].close()
    return _told(about, run)


def _told(about: str, run: Run) -> list[Finding]:
    if run.error:
        service = isinstance(run.hook.config, HttpConfig)
        remedy = "is the service up?" if service else "`hookgate hooks test` shows more"
        return [Finding(f"{about} {run.error}; {remedy}")]
    findings = []
    if run.seconds > SLOW:
        slow = f'{about} took {run.seconds * 1000:.0f} ms; with "persistent": true it would start only once'
        findings.append(Finding(slow, bad=False))
    if (run.output or {}).get("decision") == "deny":
        findings.append(Finding(f"{about} denies even a harmless event", bad=False))
    return findings
