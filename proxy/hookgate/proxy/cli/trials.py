"""`hookgate hooks test | doctor`: runs hooks on one event and reports the results."""

import difflib
import json
import logging
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hookgate.hooks import (
    AfterModel,
    AfterTool,
    BeforeTool,
    BeforeToolSelection,
    Engine,
    Event,
    Outcome,
    Run,
    SessionContext,
    SettingsError,
)
from hookgate.hooks.engine import apply_edit
from hookgate.hooks.events.base import Document, SharedValue
from hookgate.hooks.events.reading import SAMPLES, read_event
from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.output import Output, describe_unread
from hookgate.hooks.policy_environment import PriceTable
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runners import Runner
from hookgate.hooks.runners.command import CommandRunner
from hookgate.hooks.runners.persistent import LINE_BY_LINE
from hookgate.hooks.runs import HookExecutor
from hookgate.hooks.session import CallState
from hookgate.hooks.session_notes import MemoryNotes
from hookgate.hooks.settings import (
    KNOWN_TOOLS,
    CommandConfig,
    Configuration,
    Group,
    Hook,
    HttpConfig,
    Subject,
)
from hookgate.hooks.settings.commands import command_problem, search_problem
from hookgate.hooks.settings.files import decode_text
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.pacing import CallSteps, LongSteps, LoopSlices
from hookgate.proxy.calls.pieces import EarlyEnd
from hookgate.proxy.calls.request import JudgedRequest
from hookgate.proxy.config.models import LimitSettings
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.errors import pluralize
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.policy import ConfiguredHooks, hook_warnings, read_configured_hooks
from hookgate.proxy.routes.dialects.generate_content import GenerateContent
from hookgate.proxy.server.bodies import BodyWorker
from hookgate.translator import (
    ServerSentEvents,
    callable_names,
    declared_names,
    show_tool_config,
    synthetic_response,
)
from hookgate.translator.fields import JsonObject, read_list, read_object, without, write
from hookgate.translator.streaming.events import join_texts
from hookgate.translator.strictjson import dumps

_MIN_CHARACTERS = 3
"""The minimum number of characters in one event."""

_MAX_EVENTS = 32
"""The maximum number of events for one text: a program runs for each."""


@dataclass(frozen=True, slots=True)
class StreamedTrial:
    """The result of judging a streamed answer.

    Attributes:
        events: The number of events.
        answer: The joined answer after all hooks, as far as it was sent.
        ended: Whether a hook ended the stream.
    """

    events: int
    answer: JsonObject
    ended: bool


async def judge_as_stream(engine: Engine, event: AfterModel, session: SessionContext) -> StreamedTrial:
    """Split the answer of the event into small events, and judge them one after another."""
    judge = Judge(engine, CallRecord(), session)
    request = JudgedRequest(event.model, engine.plan(event, session), event.llm_request)
    steps = CallSteps(BodyWorker(LimitSettings()), LongSteps(), LoopSlices(), ("", ""))
    pipeline = AnswerPipeline(judge, request, GenerateContent(), steps, keep_answer=True)
    pipeline.begin_stream(ServerSentEvents())
    events, ended = list(_small_events(event.body)), False
    for number, small in enumerate(events, 1):
        passed = await pipeline.feed(b"data: " + dumps(small) + b"\r\n\r\n", last=number == len(events))
        if ended := isinstance(passed, EarlyEnd):
            break
    answer = pipeline.answer or {}
    pipeline.close()
    return StreamedTrial(len(events), answer, ended)


def _small_events(body: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of an answer as events, each with a piece of one text, and the other fields last."""
    candidates = read_list(body, "candidates")
    for candidate in candidates:
        content = read_object(candidate, "content")
        for part in read_list(content, "parts"):
            for piece in _pieces(part):
                alone = write(content, "parts", [piece])
                yield {"candidates": [{"index": candidate.get("index", 0), "content": alone}]}
    rest = [without(candidate, "content") for candidate in candidates]
    yield {**body, "candidates": rest} if candidates else body


def _pieces(part: JsonObject) -> Iterator[JsonObject]:
    text = part.get("text")
    if not isinstance(text, str) or not text:
        yield part
        return
    size = max(_MIN_CHARACTERS, -(-len(text) // _MAX_EVENTS))
    for start in range(0, len(text), size):
        yield {**part, "text": text[start : start + size]}


async def try_hooks(
    sources: Sources, name: str, only: str | None, file: Path | None, prices: PriceTable | None
) -> int:
    """Run the event's hooks, and print input, output, time and the changes that they make, after warnings.

    Returns 1 if a hook failed or if no hook runs for the event, else 0.
    """
    hooks = read_configured_hooks(sources)
    for warning in hooks.loaded.warnings:
        print(f"warning: {warning}")
    if only is not None:
        hooks.named(only)
    configuration = _narrowed(hooks.loaded.configuration, name, only)
    event = SAMPLES[name] if file is None else read_event(name, _document(file))
    runners = make_runners(
        configuration.hooks(),
        trust_check=hooks.trust.refusal,
        http_targets=configuration.http_targets,
        prices=prices,
    )
    recorders = {hook: _InputRecorder(runner) for hook, runner in runners.items()}
    engine = Engine(configuration, recorders, trust_check=hooks.trust.refusal)
    session = SessionContext("hookgate-test", notes=MemoryNotes())
    try:
        with _logging_all():
            outcome = await engine.fire(event, session)
            inputs = {run.hook: recorders[run.hook].last_input for run in outcome.runs}
            streamed = None
            if isinstance(event, AfterModel) and outcome.runs:
                streamed = await judge_as_stream(engine, event, SessionContext("hookgate-test"))
    finally:
        await engine.close()
    ran = {run.hook for run in outcome.runs}
    for hook in (hook for hook in configuration.hooks() if hook not in ran):
        print(f"=== {hook.name} does not run on this event: its `matcher` or `when` does not match")
    if not ran:
        named = "" if only is None else f" named {only!r}"
        print(f"No {name} hook{named} runs for this event; `hookgate hooks list` lists the configured hooks.")
        return 1
    shown = ""
    for run in outcome.runs:
        shown = _print_run(run, event, inputs[run.hook], shown)
    _print_verdict(outcome)
    _print_changes(event, outcome, session.call_state)
    if streamed is not None:
        _print_streamed(outcome, streamed)
    return 1 if any(run.error for run in outcome.runs) else 0


@contextmanager
def _logging_all() -> Iterator[None]:
    """Log everything about hooks within the block, such as what their programs write to stderr."""
    log = logging.getLogger("hookgate.hooks")
    level = log.level
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.setLevel(level)


def _narrowed(configuration: Configuration, name: str, only: str | None) -> Configuration:
    groups = []
    for group in configuration.for_event(name):
        hooks = tuple(hook for hook in group.hooks if only in (None, hook.name))
        if hooks:
            groups.append(Group(hooks, group.sequential, group.matcher))
    return replace(configuration, groups={name: tuple(groups)})


def _document(path: Path) -> dict[str, Any]:
    is_stdin = str(path) == "-"
    name = "stdin" if is_stdin else str(path)
    try:
        text = sys.stdin.read() if is_stdin else decode_text(path.read_bytes())
        document = json.loads(text)
    except json.JSONDecodeError as error:
        expected = "a hook's input, or a REST body for a model event"
        raise ValueError(f"{name} is not valid JSON: {error}; --input takes {expected}") from None
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{name}: must contain an object")
    return document


class _InputRecorder:
    """A runner that keeps its hook's last input.

    Hooks that start together may run again, on the edits of those before them; their last run counts.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.last_input: bytes | None = None
        """The input as JSON, or None if the hook did not run."""

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        self.last_input = document.json
        return await self._runner.run(event, session, document)

    async def close(self) -> None:
        await self._runner.close()


def _print_run(run: Run, event: Event, document: bytes | None, shown: str) -> str:
    """Print a run, with its input unless that is the one that was `shown` last. Returns the input shown."""
    print(f"=== {run.hook.name} ({run.hook.config.type}, {run.seconds * 1000:.1f} ms)")
    if document is not None:
        text = json.dumps(json.loads(document), indent=2, ensure_ascii=False)
        print("--- the same input" if _without_time(text) == _without_time(shown) else f"--- input\n{text}")
        shown = text
    if run.error:
        print(f"--- failed: {run.error}; the call {'is denied' if run.fails_closed else 'continues'}")
    else:
        print("--- output", json.dumps(run.output, indent=2, ensure_ascii=False), sep="\n")
    for warning in _warnings(run, event):
        print(f"--- warning: the hook {warning}")
    if run.only_observes:
        print("--- mode is 'observe': the output is not applied")
    return shown


def _without_time(text: str) -> str:
    return re.sub(r'"timestamp": "[^"]*"', "", text)


def _warnings(run: Run, event: Event) -> list[str]:
    """Return warnings about a run, each of which continues the hook's name."""
    warnings = run.warnings
    if (run.output or {}).get("decision") == "ask" and not isinstance(event, BeforeTool):
        warnings = [*warnings, "decides 'ask', which lets this event pass: users are asked only about tools"]
    specific = (run.output or {}).get("hookSpecificOutput")
    if run.warning or not specific or not isinstance(event, BeforeToolSelection):
        return warnings
    names = ", ".join(map(repr, event.undeclared_names(specific)))
    return [*warnings, *([f"names tools that the request does not declare: {names}"] if names else [])]


def _print_verdict(outcome: Outcome[Event]) -> None:
    """Print what becomes of the event, and why."""
    verdict = outcome.verdict
    failed = [run.hook.name for run in outcome.runs if run.fails_closed and not run.only_observes]
    if verdict.stop:
        decided, reason = "stop", verdict.reason
    elif verdict.synthetic:
        decided, reason = "answered by a hook, so the model is not called", ""
    elif failed:
        decided, reason = "deny", f"{' and '.join(map(repr, failed))} failed (see above)"
    else:
        decided, reason = verdict.decision, verdict.reason
    print(f"=== verdict: {decided}" + (f", reason: {reason}" if reason else ""))
    if verdict.synthetic:
        print(json.dumps(synthetic_response(verdict.llm_response), indent=2, ensure_ascii=False))


def _print_changes(before: Event, outcome: Outcome[Event], call: CallState) -> None:
    """Print what the hooks changed, as the gateway applies it."""
    verdict, after = outcome.verdict, outcome.event
    ends = verdict.stop or verdict.denied or verdict.synthetic
    if isinstance(after, BeforeToolSelection) and verdict.selects_tools and not ends:
        after = replace(after, body=verdict.apply_selection(after.body))
        _print_selection(after.body)
    if difference := _difference(before, after) or ("" if ends else "The event is unchanged."):
        print(difference)
    if isinstance(after, AfterModel) and not ends and call.restore_pseudonyms(after.body) != after.body:
        print("The client receives the original text: the gateway restores pseudonyms in its answer.")


def _print_streamed(whole: Outcome[Any], streamed: StreamedTrial) -> None:
    """Print whether the hooks judge the answer in the same way if it is streamed, and why not."""
    print(f"=== the same answer as a stream of {pluralize(streamed.events, 'event')}")
    ended = whole.verdict.stop or whole.verdict.denied
    texts = [list(join_texts([body]).values()) for body in (whole.event.body, streamed.answer)]
    if ended != streamed.ended:
        print(f"The stream is {'ended by a hook' if streamed.ended else 'not ended by a hook'}.")
    elif ended:
        print(f"A hook ends the stream. Before, the client has received {''.join(texts[1])!r}.")
    elif texts[0] == texts[1]:
        print("The client receives the same text.")
    else:
        print(f"The client receives another text: {''.join(texts[1])!r}")
    for name in sorted({run.hook.name for run in whole.runs if run.hook.misses_split_text}):
        misses = "judges each event alone, so a text that is split between events passes it"
        print(f'--- warning: {name!r} {misses}; to judge it as a whole, set "stream": "window"')


def _print_selection(body: JsonObject) -> None:
    """Print the tools that a request with the selection applied offers."""
    mode = (show_tool_config(body) or {}).get("mode", "AUTO")
    offered = callable_names(body)
    names = [name for name in declared_names(body) if name in offered]
    print(f"=== selection: mode {mode}, tools offered: {', '.join(names) or 'none'}")


def _difference(before: Event, after: Event) -> str:
    old, new = (
        json.dumps(_plain(event), indent=2, ensure_ascii=False).splitlines() for event in (before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def _plain(event: Event) -> Any:
    """Return the part of an event that an edit can change."""
    body = getattr(event, "body", None)
    return Document(event.fields("text")).value() if body is None else body


SLOW = 0.2
"""Seconds after which a hook noticeably slows down a conversation; a Python script takes about 0.05."""

_LONGEST_MESSAGE = 60
"""The number of characters of a hook's message that a finding repeats."""

_DOCTOR_SESSION = SessionContext("hookgate-doctor", notes=MemoryNotes())

_JSON_ANSWER = AfterModel(
    SharedValue({"model": "", "messages": [], "config": {"responseMimeType": "application/json"}}),
    {"candidates": [{"content": {"role": "model", "parts": [{"text": '{"next_speaker": "user"}'}]}}]},
)
"""An answer in JSON, as agents request it for their own questions. A hook that adds words to it breaks it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding of a check. `FAIL` means that something does not work."""

    message: str
    level: Literal["FAIL", "note", "ok"] = "FAIL"


async def diagnose(sources: Sources, prices: PriceTable | None) -> int:
    """Check every hook and print the findings. Returns 1 if there is a problem, else 0."""
    hooks = read_configured_hooks(sources, partly=True)
    findings = await print_diagnoses(diagnose_hooks(hooks, prices))
    return print_summary(findings, pluralize(len(hooks.loaded.configuration.hooks()), "hook") + " checked")


async def print_diagnoses(findings: AsyncIterator[Diagnosis]) -> list[Diagnosis]:
    """Print each finding once, as soon as it is known, and return them."""
    printed: dict[Diagnosis, None] = {}  # several checks read the settings of hooks
    async for finding in findings:
        if finding not in printed:
            printed[finding] = None
            print(f"{finding.level:4}  {finding.message}", flush=True)
    return [*printed]


def print_summary(findings: Sequence[Diagnosis], checked: str) -> int:
    """Print a line that begins with `checked`. Returns 1 if a finding is a failure, else 0."""
    bad = sum(finding.level == "FAIL" for finding in findings)
    print(f"{checked}, {pluralize(bad, 'problem')} found.")
    return 1 if bad else 0


async def diagnose_hooks(hooks: ConfiguredHooks, prices: PriceTable | None) -> AsyncIterator[Diagnosis]:
    """Run every hook once on a sample event, and yield the findings."""
    for problem in (*hooks.loaded.problems, *hooks.loaded.ignored):
        yield Diagnosis(str(problem))
    for warning in hooks.loaded.warnings:
        yield Diagnosis(str(warning), "FAIL" if warning.breaks_hook else "note")
    configuration = hooks.loaded.configuration
    for groups in configuration.groups.values():
        for group in groups:
            for hook in group.hooks:
                for finding in await _examined(hook, _harmless(group, hook.event), hooks, prices):
                    yield finding
    for text in hook_warnings(configuration):
        yield Diagnosis(text, "note")


def _harmless(group: Group, event: str) -> Event:
    """Return the event's sample. A tool event has a tool that matches the group's matcher if possible.

    For a tool selection, the request declares all tools of Gemini CLI.
    """
    sample = SAMPLES[event]
    if isinstance(sample, BeforeToolSelection):
        tools = [{"functionDeclarations": [{"name": name} for name in KNOWN_TOOLS]}]
        return replace(sample, body={**sample.body, "tools": tools})
    candidates = (*KNOWN_TOOLS, group.matcher.pattern)
    tool = next((name for name in candidates if group.matcher.matches(Subject(tools=(name,)))), None)
    return replace(sample, tool_name=tool) if tool and isinstance(sample, BeforeTool | AfterTool) else sample


async def _examined(
    hook: Hook, event: Event, hooks: ConfiguredHooks, prices: PriceTable | None
) -> list[Diagnosis]:
    about = f"{hook.event} hook {hook.name!r} ({hook.source})"
    if (reason := hooks.trust.refusal(hook)) is not None:
        return [Diagnosis(f"{about} {reason}")]
    config = hook.config
    if isinstance(config, CommandConfig) and (
        command_problem(config, hook.root) or search_problem(config, hook.root)
    ):
        return []  # found when the settings were read
    try:
        targets = hooks.loaded.configuration.http_targets
        runners = make_runners([hook], http_targets=targets, prices=prices)
    except SettingsError as error:
        return [Diagnosis(str(error))]
    try:
        executor = HookExecutor(runners, FairQueue(1), FairQueue(1), lambda _: None)
        run = await executor.run(hook, event, (), _DOCTOR_SESSION, deadline=None)
        run, _ = await apply_edit(run, event, _DOCTOR_SESSION)
        findings = _diagnose_run(about, run, event)
        runner = runners[hook]
        if isinstance(runner, CommandRunner) and runner.ignored_stderr and not (run.error or run.warning):
            wrote = f"exited with code 0 but wrote to stderr: {runner.ignored_stderr}"
            findings.append(Diagnosis(f"{about} {wrote}", "note"))
        if isinstance(event, AfterModel) and not run.error:
            run = await executor.run(hook, _JSON_ANSWER, (), _DOCTOR_SESSION, deadline=None)
            findings += [Diagnosis(f"{about} {run.warning}", "note")] if run.warning else []
    finally:
        await runners[hook].close()
    return findings


def _diagnose_run(about: str, run: Run, event: Event) -> list[Diagnosis]:
    config = run.hook.config
    if run.error:
        if isinstance(config, HttpConfig):
            remedy = "check that the service is running"
        elif isinstance(config, CommandConfig) and config.persistent:
            remedy = LINE_BY_LINE
        else:
            remedy = "`hookgate hooks test` shows more"
        return [Diagnosis(f"{about} {run.error}" + ("" if remedy in run.error else f"; {remedy}"))]
    unread = bool(describe_unread(run.output or {}) or run.ignored or (run.warning and run.output is None))
    findings = [
        Diagnosis(f"{about} {warning}", "FAIL" if unread else "note") for warning in _warnings(run, event)
    ]
    output = run.output or {}
    if output.keys() == {"decision", "systemMessage"} and not unread:
        first_line = textwrap.shorten(output["systemMessage"], _LONGEST_MESSAGE, placeholder="…")
        told = f"decided nothing: it printed a message for the log, {first_line!r}"
        findings.append(Diagnosis(f"{about} {told}; a decision is one JSON object on stdout", "note"))
    if run.seconds > SLOW:
        remedy = (
            '; a program that answers line by line can be "persistent", and starts only once'
            if isinstance(config, CommandConfig) and not config.persistent
            else ""
        )
        findings.append(Diagnosis(f"{about} took {run.seconds * 1000:.0f} ms{remedy}", "note"))
    if output.get("decision") == "deny":
        reason = textwrap.shorten(output.get("reason") or "", _LONGEST_MESSAGE, placeholder="…")
        findings.append(
            Diagnosis(
                f"{about} denies even a sample event" + (f", with {reason!r}" if reason else ""), "note"
            )
        )
    return findings
