"""Sessions of agents under flow rules, without a gateway."""

import json
from pathlib import Path
from typing import Any

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.flows.policy import flows_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.hooks.session import CallState
from hookgate.hooks.session_notes import MemoryNotes, SessionNotes

Json = dict[str, Any]

SOURCES: Json = {
    "untrusted": [
        {"tool": "web_fetch", "asked": True},
        {"tool": ["read_mail*", "search_*"], "fields": ["id", "from", "items"]},
    ],
    "secret": [{"tool": "vault_*", "pieces": True}],
}
TRUSTED: list[Json] = [{"tool": "contacts"}, {"tool": "create_*", "fields": "id"}]
SINKS: Json = {
    "send": [{"tool": ["send_*", "post_*"], "targets": ["/to", "/cc"], "texts": ["/body"]}],
    "delete": [{"tool": "delete_*", "targets": ["/id"]}],
    "any": [{"tool": "http_*"}],
}
RULES: list[Json] = [
    {"to": "send", "after": "untrusted", "carrying": "secret"},
    {"to": "send", "chosen_by": "untrusted"},
    {"to": "any", "chosen_by": "untrusted"},
    {"to": "delete", "ordered_by": "untrusted"},
]
OPTIONS: Json = {"sources": SOURCES, "trusted": TRUSTED, "sinks": SINKS, "rules": RULES}


class Session:
    """A session of an agent: what happens in it, as the policy is told."""

    def __init__(self, options: Json = OPTIONS, notes: SessionNotes | None = None, name: str = "s") -> None:
        self.notes = notes or MemoryNotes()
        self.options, self.name = options, name
        self.restart()

    def restart(self) -> None:
        """Continue with policies that remember nothing themselves, as in another process."""
        environment = PolicyEnvironment(Path("/"))
        self._policies = {
            event: flows_policy(self.options, environment)
            for event in ("BeforeAgent", "AfterTool", "BeforeTool")
        }

    async def _fire(self, event: str, user_text: str | None = None, **fields: Any) -> Any:
        session = SessionContext(self.name, call_state=CallState(user_text=user_text), notes=self.notes)
        return await self._policies[event]({"hook_event_name": event, **fields}, session)

    async def says(self, text: str, certainly: str | None = None) -> None:
        """The user says something; `certainly` is what the gateway knows to be the user's, if it knows."""
        assert await self._fire("BeforeAgent", certainly, prompt=text) is None

    async def reads(self, tool: str, content: Any, **arguments: Any) -> None:
        """A tool returns something."""
        shown = content if isinstance(content, str) else ""
        response = {"llmContent": content, "returnDisplay": shown}
        assert (
            await self._fire("AfterTool", tool_name=tool, tool_input=arguments, tool_response=response)
            is None
        )

    async def calls(self, tool: str, **arguments: Any) -> str | None:
        """The reason why a call is denied, or None if it may be made."""
        said = await self._fire("BeforeTool", tool_name=tool, tool_input=arguments)
        return said["reason"] if said and said.get("decision") == "deny" else None

    async def output(self, tool: str, **arguments: Any) -> Any:
        """The output of the policy for a call."""
        return await self._fire("BeforeTool", tool_name=tool, tool_input=arguments)


def mail(sender: str, body: str, id_: str = "m-1") -> str:
    """What a mail tool returns."""
    return json.dumps([{"id": id_, "from": sender, "body": body}])
