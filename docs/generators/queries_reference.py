"""Generate docs/queries.md from the words that find calls.

PYTHONPATH=docs python -m generators.queries_reference > docs/queries.md
"""

from generators.credential_kinds import table

from hookgate.proxy.audit.index.query import GROUP_FIELDS, WORD_HELP

_INTRODUCTION = """\
# Words of queries

<!-- Made by: PYTHONPATH=docs python -m generators.queries_reference > docs/queries.md -->

    hookgate audit list team:web outcome:guarded 'duration:>30s' since:7d

A call is found if all words of a [query](answers.md#queries) match. Each word is a flag as well: `--team
web`. Queries are the same in commands, in [the panel](panel.md#calls), in its API, and in the rules of
[alerts](alerts.md#rules). `guarded` means `denied`, `stopped` or `blocked`, and `unanswered` all without
an answer.
"""


def queries_reference() -> str:
    """Return the page as Markdown."""
    words = table(["word", "finds calls"], [[f"`{word}`", _shown(text)] for word, text in WORD_HELP.items()])
    groups = ", ".join(f"`{group}`" for group in GROUP_FIELDS)
    return f"{_INTRODUCTION}\n{words}\n[Reports](answers.md#reports) sum up by {groups}.\n"


def _shown(text: str) -> str:
    return text.removeprefix("only those ").replace("|", "\\|")


if __name__ == "__main__":
    print(queries_reference(), end="")
