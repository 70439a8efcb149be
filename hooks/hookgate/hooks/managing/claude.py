"""Claude Code's names for events, tools and triggers, and what each is called in Gemini CLI.

The first eight events and seven tools are the tables of Gemini CLI's own `hooks migrate`, in the spelling of
its documents; the rest is Claude Code's later vocabulary. Pure: nothing here reads a file.
"""

import re
from collections.abc import Mapping, Sequence

EVENTS = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "Notification": "Notification",
    "SessionStart": "SessionStart",
    "SessionEnd": "SessionEnd",
    "PreCompact": "PreCompress",
}

TOOLS: Mapping[str, tuple[str, ...]] = {
    "Bash": ("run_shell_command",),
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
"""Two names where Gemini CLI renamed the tool: a matcher has to hold for the one of either version."""

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
"""By Claude Code's event. Gemini CLI 0.61 ends every session with `exit`, but for `/clear`."""

_NAME = re.compile(r"[\w-]+")
_ANCHORED = re.compile(r"\^([\w-]+)\$")
_WHOLE = re.compile(r"\^?\((?:\?:)?([^()]*)\)\$?")
_ARGUMENTS = re.compile(rf"(?:{'|'.join(TOOLS)})\(.*\)")
_MCP = re.compile(r"mcp__((?:(?!mcp__).)+?)__")
_WORDS = re.compile(r"\\.|\w+|.", re.DOTALL)
"""An escaped character, a word, or any other character."""


def is_all(matcher: str) -> bool:
    """Whether a matcher lets everything through."""
    return matcher in ("", "*", ".*")


def triggers(event: str, matcher: str) -> tuple[list[str], list[str]]:
    """What a session event's matcher holds for in Gemini CLI's words, and the alternatives that were lost."""
    known = TRIGGERS[event]
    carried: list[str] = []
    lost: list[str] = []
    for alternative in _alternatives(matcher):
        new = [each for name, news in known.items() if _holds(alternative, name) for each in news]
        carried += [each for each in dict.fromkeys(new) if each not in carried]
        lost += [] if new else [alternative]
    return carried, lost


def tools(matcher: str) -> tuple[str, list[str]]:
    """A tool event's matcher in Gemini CLI's tool names, and the tools or alternatives that were lost.

    Names are rewritten as whole words, so a regular expression keeps its form: `Edit|Write` becomes
    `replace|write_file`, `mcp__server__.*` becomes `mcp_server_.*`. One that holds parts of names (`Web.*`)
    becomes a list of the tools it means. Empty when nothing is left.
    """
    carried: list[str] = []
    lost: list[str] = []
    for alternative in _alternatives(matcher):
        new, gone = _alternative(alternative)
        readable = all(_is_regex(each) for each in new)
        carried += [each for each in dict.fromkeys(new) if readable and each not in carried]
        lost += gone if readable else [alternative]
    return "|".join(carried), lost


def _alternatives(pattern: str) -> list[str]:
    """`^(Edit|Write)$`, `Edit|Write` -> `Edit`, `Write`; what stands in brackets is not taken apart."""
    whole = _WHOLE.fullmatch(pattern)
    parts, depth = [""], 0
    for word in _WORDS.findall(whole[1] if whole else pattern):
        depth += (word in "([") - (word in ")]")
        if word == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += word
    return [anchored[1] if (anchored := _ANCHORED.fullmatch(part)) else part for part in parts if part]


def _alternative(pattern: str) -> tuple[Sequence[str], list[str]]:
    if _ARGUMENTS.fullmatch(pattern):
        return (), [pattern]
    if pattern in TOOLS:
        return TOOLS[pattern], [] if TOOLS[pattern] else [pattern]
    held = [name for name in TOOLS if _holds(pattern, name)]
    if _is_of_whole_names(pattern, held):
        return (_rewritten(pattern),), []
    if not held or "mcp__" in pattern:
        return (), [pattern]
    return [new for name in held for new in TOOLS[name]], [name for name in held if not TOOLS[name]]


def _is_of_whole_names(pattern: str, held: Sequence[str]) -> bool:
    """Whether replacing whole words says the same; `Web.*` and `(?i)bash` hold parts of names."""
    names = [word for word in _WORDS.findall(pattern) if word[0].isupper()]
    if names:
        return all(TOOLS.get(name) for name in names)
    return len(held) in (0, len(TOOLS))


def _rewritten(pattern: str) -> str:
    text = "".join(_one_of(TOOLS.get(word, (word,))) for word in _WORDS.findall(pattern))
    text, servers = _MCP.subn(r"mcp_\1_", text)
    text = text.replace("mcp__", "mcp_")
    # Claude Code searches the name, here the whole name has to match.
    is_open = servers and not _NAME.fullmatch(pattern) and not text.endswith((".*", "$"))
    return f"{text}.*" if is_open else text


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"(?:{'|'.join(names)})"


def _holds(pattern: str, name: str) -> bool:
    """Claude Code's rule: a plain name is exact, anything else is a search."""
    if _NAME.fullmatch(pattern):
        return pattern == name
    return _is_regex(pattern) and re.search(pattern, name) is not None


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
