"""The program of rego hooks: reads policies in its first line, then an event per line, and answers each line.

It runs as a script, and imports nothing of hookgate, so that a process takes little memory and starts
quickly. The engine cannot be interrupted, and holds the GIL; in a process of its own, it can be ended at any
time, and can take neither more memory than allowed nor another process with it.
"""

import json
import re
import resource
import sys
from collections.abc import Collection, Iterator
from typing import Any

Json = dict[str, Any]

MAX_MEMORY = 1 << 30
"""The bytes that a process may allocate, for its policies and one event."""

RULES = ("deny", "ask", "warn", "allow")
"""The rules with the names that OPA's users give them. Other rules are read as keys of an output."""

OUTPUT_KEYS = (
    "decision",
    "reason",
    "continue",
    "stopReason",
    "systemMessage",
    "suppressOutput",
    "hookSpecificOutput",
)
"""The keys of a hook's output that are read if a package has rules of these names."""

_NO_SUCH_RULE = "not a valid rule path"
_NO_SUCH_FUNCTION = "could not find function"
"""What the engine says if a rule or a function does not exist."""

_LOCATED = re.compile(
    r"--> (?P<file>.+):(?P<line>\d+):(?P<column>\d+)\n.*\nerror: (?P<message>.*)", re.DOTALL
)
"""Matches the engine's message about a place in a file, with the line itself between place and message."""


def answer_lines() -> None:
    """Answer the lines of stdin, until it ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    policies: Policies | None = None
    for line in sys.stdin.buffer:
        try:
            if policies is None:
                policies = Policies(**json.loads(line))
                answer: Json = {}
            else:
                answer = {"output": policies.judge(line.decode())}
        except (ValueError, TypeError, RuntimeError, MemoryError) as error:  # of the engine, or of a value
            answer = {"error": _described(error)}
        print(json.dumps(answer), flush=True)
        if policies is None:  # the next line is an event, which cannot be judged
            return


class Policies:
    """The compiled policies, and the query that each event is judged by."""

    def __init__(self, query: str, files: list[tuple[str, str]]) -> None:
        """Compile policies, given as names and texts. Names that end in `.json` are those of data.

        Raises the engine's errors for a policy that cannot be compiled.
        """
        from regorus import Engine  # noqa: PLC0415  # an extra; so this module can be imported without it

        self._engine, self._query = Engine(), query
        for name, text in files:
            self._add(name, text)
        # The engine's own is undefined, so that a rule to deny would silently not apply.
        self._engine.add_extension("http.send", 1, _refuse_to_send)
        self._compile()
        self.rules = [name for name in (*RULES, *OUTPUT_KEYS) if self._exists(f"{query}.{name}")]
        """The rules of the query's package that are read."""
        if not self.rules:
            self._check_rule()

    def judge(self, event: str) -> Json:
        """Return the output for an event, given as JSON. Raises ValueError or an error of the engine."""
        self._engine.set_input_json(event)
        found = json.loads(self._engine.eval_query_as_json(self._query)).get("result")
        if not found:
            raise ValueError(f"{self._query} is undefined for this event")
        return output_of(found[0]["expressions"][0]["value"], self.rules)

    def _add(self, name: str, text: str) -> None:
        try:
            if name.endswith(".json"):
                self._engine.add_data_json(text)
            else:
                self._engine.add_policy(name, text)
        except RuntimeError as error:
            if _LOCATED.search(str(error)):
                raise
            raise ValueError(f"{name}: {error}") from None

    def _compile(self) -> None:
        """Compile what was added, which the engine does before it looks for a rule. Raises RuntimeError."""
        try:
            self._engine.eval_rule("data")
        except RuntimeError as error:
            if _NO_SUCH_RULE not in str(error):
                raise

    def _exists(self, rule: str) -> bool:
        """Return whether a rule exists. There is no event yet, so it may be undefined, or fail.

        Raises RuntimeError if it calls a function that does not exist.
        """
        try:
            self._engine.eval_rule(rule)
        except RuntimeError as error:
            if _NO_SUCH_FUNCTION in str(error):
                raise
            return _NO_SUCH_RULE not in str(error)
        return True

    def _check_rule(self) -> None:
        """Check that the query is a rule. Raises ValueError for a package, in which nothing can be read."""
        if not self._exists(self._query):
            packages = ", ".join(self._engine.get_packages())
            read = f"{', '.join(RULES)} or as a key of an output"
            message = f"{self._query} is no rule, and no package with a rule that is named {read}"
            raise ValueError(f"{message}; the packages are: {packages}")


def output_of(value: Any, rules: Collection[str] = ()) -> Json:
    """Return a hook's output for the value of a package, or of a rule that returns an object.

    Args:
        value: The value. Its keys are rules' names.
        rules: The rules that exist, of which some may be undefined for this event.
    """
    if not isinstance(value, dict):
        raise ValueError("the query's value must be an object; name the package of the rules")
    output = {key: value[key] for key in OUTPUT_KEYS if key in value}
    denials, questions, warnings = (list(_messages(name, value.get(name))) for name in RULES[:3])
    if ("allow" in rules or "allow" in value) and value.get("allow") is not True:
        denials = denials or ["The policy does not allow this."]
    if denials:
        output |= {"decision": "deny", "reason": "\n".join(denials)}
    elif questions and output.get("decision", "allow") in {"allow", "approve"}:
        output |= {"decision": "ask", "reason": "\n".join(questions)}
    if warnings:
        message = [output["systemMessage"]] if output.get("systemMessage") else []
        output["systemMessage"] = "\n".join([*message, *warnings])
    return output


def _messages(rule: str, value: Any) -> Iterator[str]:
    """Yield the messages of a rule: a set of texts or of objects with `msg`, one text, or true."""
    if value is None or value is False:
        return
    if value is True:
        yield f"The rule {rule} applies."
        return
    for each in value if isinstance(value, list) else [value]:
        message = each.get("msg") if isinstance(each, dict) else each
        if not isinstance(message, str):
            raise ValueError(f"{rule}: each message must be a string, or an object with a string as msg")
        yield message


def _refuse_to_send(request: Any) -> Any:
    raise ValueError("http.send is not available; pass what the rule needs as data, or use an http hook")


def _described(error: BaseException) -> str:
    """Return an error's message on one line. The engine's own shows the line of the file below its place."""
    text = str(error) or type(error).__name__
    if found := _LOCATED.search(text):
        text = f"{found['file']}:{found['line']}:{found['column']}: {found['message']}"
    return " ".join(text.split())


if __name__ == "__main__":
    answer_lines()
