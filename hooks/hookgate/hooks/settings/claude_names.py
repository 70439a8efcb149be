"""Maps Claude Code's names of events, tools and triggers to those of Gemini CLI. It does no I/O.

`Bash`, `Edit`, `Read`, `Write`, `Glob`, `Grep`, `LS`, and the events except those in `WIDER`, are those of
Gemini CLI's own `hooks migrate`, in the spelling of its documentation; the others are later names of Claude
Code.
"""

import re
import warnings
from collections.abc import Mapping, Sequence

EVENTS = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "PostToolUseFailure": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "Notification": "Notification",
    "SessionStart": "SessionStart",
    "SessionEnd": "SessionEnd",
    "PreCompact": "PreCompress",
    "UserPromptExpansion": "BeforeAgent",
    "SubagentStart": "BeforeTool",
    "SubagentStop": "AfterTool",
    "PermissionRequest": "BeforeTool",
    "PreSkillShellCommand": "BeforeTool",
}

WIDER = {
    "PostToolUseFailure": "which fires for all tools; check tool_response.error in the hook",
    "UserPromptExpansion": "which fires for all prompts",
    "SubagentStart": "for the tools that start agents",
    "SubagentStop": "for the tools that start agents; the agent's answer is the tool's result",
    "PermissionRequest": "which fires for all tools, whether or not the user is asked; return `decision`",
    "PreSkillShellCommand": "for all commands of the shell",
}
"""Events whose counterpart fires more often, or differs, and how."""

_AGENTS = "delegate_to_agent|invoke_agent"
FIXED_MATCHERS = {
    "SubagentStart": _AGENTS,
    "SubagentStop": _AGENTS,
    "PreSkillShellCommand": "run_shell_command",
}
"""The matchers of counterparts that are about tools, although the event is not."""

KNOWN_EVENTS = (
    *EVENTS,
    "PostToolBatch",
    "StopFailure",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
)
"""All events of Claude Code 2.1.332."""

TOOLS: Mapping[str, tuple[str, ...]] = {
    "Bash": ("run_shell_command",),
    "PowerShell": ("run_shell_command",),
    "Monitor": ("run_shell_command",),
    "Edit": ("replace",),
    "Read": ("read_file",),
    "Write": ("write_file",),
    "Glob": ("glob",),
    "Grep": ("search_file_content", "grep_search"),
    "LS": ("list_directory",),
    "MultiEdit": ("replace",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
    "TodoWrite": ("write_todos",),
    "Task": ("delegate_to_agent", "invoke_agent"),
    "Agent": ("delegate_to_agent", "invoke_agent"),
    "Skill": ("activate_skill",),
    "AskUserQuestion": ("ask_user",),
    "EnterPlanMode": ("enter_plan_mode",),
    "ExitPlanMode": ("exit_plan_mode",),
    "BashOutput": (),
    "KillShell": (),
    "NotebookEdit": (),
    "NotebookRead": (),
    "SlashCommand": (),
}
"""There are two names if Gemini CLI has renamed the tool: a matcher must match the names of both versions."""

TRIGGERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "SessionStart": {
        "startup": ("startup",),
        "resume": ("resume",),
        "clear": ("clear",),
        "compact": ("compress",),
    },
    "SessionEnd": {
        "clear": ("clear",),
        "logout": ("logout",),
        "prompt_input_exit": ("prompt_input_exit", "exit"),
        "other": ("other", "exit"),
        "resume": (),
        "bypass_permissions_disabled": (),
    },
    "PreCompact": {"manual": ("manual",), "auto": ("auto",)},
    "Notification": {
        "permission_prompt": ("ToolPermission",),
        "idle_prompt": (),
        "auth_success": (),
        "elicitation_dialog": (),
    },
}
"""The triggers of Claude Code's events. Gemini CLI 0.61 ends all sessions with `exit`, except by `/clear`."""

_NAME = re.compile(r"[\w-]+")
_ANCHORED = re.compile(r"\^([\w-]+)\$")
_WHOLE = re.compile(r"\^?\((?:\?:)?([^()]*)\)\$?")
_ARGUMENTS = re.compile(rf"(?:{'|'.join(TOOLS)})\(.*\)")
_MCP = re.compile(r"mcp__((?:(?!mcp__).)+?)__")
_WORDS = re.compile(r"\\.|\w+|.", re.DOTALL)
"""An escaped character, a word, or any other character."""


def is_all(matcher: str) -> bool:
    """Return whether a matcher matches everything."""
    return matcher in ("", "*", ".*")


def triggers(event: str, matcher: str) -> tuple[list[str], list[str]]:
    """Return Gemini CLI's triggers for the matcher of a session event, and the alternatives without one."""
    known = TRIGGERS[event]
    migrated: list[str] = []
    lost: list[str] = []
    for alternative in _alternatives(matcher):
        new = [
            trigger for name, targets in known.items() if _matches(alternative, name) for trigger in targets
        ]
        migrated += [trigger for trigger in dict.fromkeys(new) if trigger not in migrated]
        lost += [] if new else [alternative]
    return migrated, lost


def tools(matcher: str) -> tuple[str, list[str]]:
    """Return a tool event's matcher with Gemini CLI's tool names, and the tools or alternatives without one.

    Names are replaced as whole words, so a regular expression keeps its form: `Edit|Write` becomes
    `replace|write_file`, and `mcp__server__.*` becomes `mcp_server_.*`. An expression with parts of names
    (`Web.*`) becomes a list of the matching tools. The matcher is empty if nothing is left.
    """
    migrated: list[str] = []
    lost: list[str] = []
    for alternative in _alternatives(matcher):
        new, missing = _migrate_alternative(alternative)
        valid = all(_is_regex(pattern) for pattern in new)
        migrated += [pattern for pattern in dict.fromkeys(new) if valid and pattern not in migrated]
        lost += missing if valid else [alternative]
    return "|".join(migrated), lost


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern: `^(Edit|Write)$` and `Edit|Write` become `Edit`, `Write`. Nested groups are kept."""
    whole = _WHOLE.fullmatch(pattern)
    parts, depth = [""], 0
    for word in _WORDS.findall(whole[1] if whole else pattern):
        depth += (word in "([") - (word in ")]")
        if word == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += word
    return [anchored[1] if (anchored := _ANCHORED.fullmatch(part)) else part for part in parts if part]


def _migrate_alternative(pattern: str) -> tuple[Sequence[str], list[str]]:
    if _ARGUMENTS.fullmatch(pattern):
        return (), [pattern]
    if pattern in TOOLS:
        return TOOLS[pattern], [] if TOOLS[pattern] else [pattern]
    matched = [name for name in TOOLS if _matches(pattern, name)]
    if _has_whole_names(pattern, matched):
        return (_replace_names(pattern),), []
    if not matched or "mcp__" in pattern:
        return (), [pattern]
    return [new for name in matched for new in TOOLS[name]], [name for name in matched if not TOOLS[name]]


def _has_whole_names(pattern: str, matched: Sequence[str]) -> bool:
    """Return whether whole names can be replaced; `Web.*` and `(?i)bash` contain only parts of names."""
    names = [word for word in _WORDS.findall(pattern) if word[0].isupper()]
    if names:
        return all(TOOLS.get(name) for name in names)
    return len(matched) in (0, len(TOOLS))


def _replace_names(pattern: str) -> str:
    text = "".join(_any_of(TOOLS.get(word, (word,))) for word in _WORDS.findall(pattern))
    text, servers = _MCP.subn(r"mcp_\1_", text)
    text = text.replace("mcp__", "mcp_")
    # Claude Code searches the name, whereas Gemini CLI matches the whole name.
    is_open = servers and not _NAME.fullmatch(pattern) and not text.endswith((".*", "$"))
    return f"{text}.*" if is_open else text


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"(?:{'|'.join(names)})"


def _matches(pattern: str, name: str) -> bool:
    """Match like Claude Code: a plain name is compared exactly, any other pattern is searched for."""
    if _NAME.fullmatch(pattern):
        return pattern == name
    return _is_regex(pattern) and re.search(pattern, name) is not None


def _is_regex(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of classes such as `[[a]`
            re.compile(pattern)
    except re.error:
        return False
    return True
