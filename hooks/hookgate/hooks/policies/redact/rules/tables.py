"""The format of rules: that of gitleaks, in TOML or as JSON in settings."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from hookgate.hooks.policies.options import Options, compile_pattern, describe_mistakes

_LONGEST_PATTERN, _LONGEST_WORD = 4096, 256


def _checked_pattern(value: str) -> str:
    if len(value) > _LONGEST_PATTERN:
        raise ValueError(f"has more than {_LONGEST_PATTERN} characters")
    compile_pattern(value)
    return value


_Pattern = Annotated[str, AfterValidator(_checked_pattern)]
_Patterns = Annotated[tuple[_Pattern, ...], Field(strict=False, max_length=1000)]
_Word = Annotated[str, Field(min_length=1, max_length=_LONGEST_WORD)]

Condition = Literal["OR", "AND", "||", "&&"]
Target = Literal["secret", "match", "line", ""]


class AllowlistTable(Options):
    """An allowlist: what a rule matches although it is not a secret."""

    description: str = ""
    """A description for people."""

    condition: Condition = "OR"
    """Whether one of the following is enough (`OR`), or all that are given have to apply (`AND`)."""

    regex_target: Target = Field(default="secret", alias="regexTarget")
    """What `regexes` are searched in: the `secret`, the `match`, or the `line` up to the end of the match."""

    regexes: _Patterns = ()
    """Patterns in RE2's syntax."""

    stopwords: tuple[_Word, ...] = Field(default=(), strict=False, max_length=10_000)
    """Words that the secret contains, regardless of case."""

    paths: _Patterns = ()
    """Patterns of paths of files. Only `hookgate redact scan` knows paths."""

    commits: tuple[str, ...] = Field(default=(), strict=False)
    """Commits, which hookgate does not know."""


class SharedAllowlistTable(AllowlistTable):
    """An allowlist of all rules of a file."""

    target_rules: tuple[str, ...] = Field(default=(), alias="targetRules", strict=False)
    """The rules to which it applies; default: all rules of the file."""


class RuleTable(Options):
    """A rule."""

    id: str = Field(min_length=1, max_length=200)
    """The name of the rule, such as `acme-token`."""

    description: str = ""
    """A description for people."""

    regex: _Pattern = ""
    """A pattern in RE2's syntax. Its first group that matches is the secret, or else the whole match."""

    secret_group: int = Field(default=0, alias="secretGroup", ge=0)
    """The number of the group that is the secret."""

    entropy: float = Field(default=0, strict=False)
    """The entropy that a secret exceeds, in bits per character (Shannon)."""

    keywords: tuple[_Word, ...] = Field(default=(), strict=False, max_length=1000)
    """Words of which one is in the match, or in the 256 bytes before it, regardless of case."""

    path: _Pattern = ""
    """A pattern of the paths of files to which the rule applies. Only `hookgate redact scan` knows paths."""

    tags: tuple[str, ...] = Field(default=(), strict=False)
    """Words for people."""

    allowlists: tuple[AllowlistTable, ...] = Field(default=(), strict=False)
    """What the rule matches although it is not a secret."""


Table = TypeVar("Table", bound=Options)


def read_table(model: type[Table], table: Any, *, known_only: bool = False) -> Table:
    """Read a table, regardless of the case of its keys. Raises ValueError, which names all mistakes.

    With `known_only`, other keys are ignored.
    """
    if not isinstance(table, Mapping):
        raise ValueError("is not a table")
    try:
        return model.model_validate(_with_known_keys(table, known_only=known_only))
    except ValidationError as error:
        raise ValueError("; ".join(describe_mistakes(model, error))) from None


_KEYS = {
    key.lower(): key
    for model in (RuleTable, SharedAllowlistTable)
    for key in (field.alias or name for name, field in model.model_fields.items())
}
_TABLES = frozenset({"allowlists"})


def _with_known_keys(table: Mapping[str, Any], *, known_only: bool) -> dict[str, Any]:
    """Return a table and those in it with the keys as the models have them."""
    new: dict[str, Any] = {}
    for key, value in table.items():
        name = _KEYS.get(key.lower(), key)
        if known_only and key.lower() not in _KEYS:
            continue
        is_list = name in _TABLES and isinstance(value, list)
        new[name] = [_with_known_keys_in(each, known_only) for each in value] if is_list else value
    return new


def _with_known_keys_in(value: Any, known_only: bool) -> Any:
    return _with_known_keys(value, known_only=known_only) if isinstance(value, dict) else value
