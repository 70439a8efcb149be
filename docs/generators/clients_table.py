"""Put the table of clients that the tests made into docs/tested-clients.md: `make clients`.

python docs/generators/clients_table.py build/clients.md
"""

import sys
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "tested-clients.md"
_BEGIN, _END = "<!-- The table is made by: make clients -->\n", "<!-- The end of the table -->\n"


def replace_table(page: str, table: str) -> str:
    """Return the page with this table. Raises ValueError if the page lacks the comments around it."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{_PAGE} lacks a comment around the table")
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    _PAGE.write_text(replace_table(_PAGE.read_text(encoding="utf-8"), Path(sys.argv[1]).read_text()))
