"""Write the picture and the generated parts of docs/performance.md from the figures in docs/figures.

python -m benchmarks.gateway.pages [--check]
"""

import sys
from pathlib import Path
from textwrap import fill

from benchmarks.gateway.instructions import ComparedCounts, read_counts
from benchmarks.gateway.loads import LOADS
from benchmarks.gateway.pages.figures import Figures, read
from benchmarks.gateway.pages.picture import picture
from benchmarks.gateway.pages.tables import as_markdown, circumstances, table
from benchmarks.gateway.pages.targets import targets_table
from benchmarks.gateway.profiles import Profiles, read_profiles

DOCS = Path(__file__).parents[3] / "docs"
FIGURES = DOCS / "figures" / "gateway.json"
PROFILES = DOCS / "figures" / "profiles.json"
INSTRUCTIONS = DOCS / "figures" / "instructions.json"
PICTURE = DOCS / "figures" / "gateway.svg"
PAGE = DOCS / "performance.md"


def main() -> int:
    """Write the files. With --check, write nothing, and return 1 if one of them is outdated."""
    figures, profiles, counts = read(FIGURES), read_profiles(PROFILES), read_counts(INSTRUCTIONS)
    page = PAGE.read_text()
    for name, text in generated(figures, profiles, counts).items():
        page = with_part(page, name, text)
    wanted = {PAGE: page, PICTURE: picture(figures)}
    if "--check" in sys.argv[1:]:
        outdated = [path.name for path, text in wanted.items() if path.read_text() != text]
        print(
            *(f"{name} is outdated; run: python -m benchmarks.gateway.pages" for name in outdated), sep="\n"
        )
        return 1 if outdated else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


def generated(figures: Figures, profiles: Profiles, counts: ComparedCounts) -> dict[str, str]:
    """Return the generated parts of the page by name."""
    loads = [
        f"### {load}\n\n{fill(LOADS[load].description, 120)}\n\n{as_markdown(table(figures, load))}"
        for load in figures.samples
    ]
    about = "\n".join(f"- {line}" for line in circumstances(figures).splitlines())
    return {
        "targets": as_markdown(targets_table(figures)),
        "figures": "\n\n".join([about, *loads]),
        "profile": as_markdown(profiles.table()),
        "instructions": as_markdown(counts.table()),
    }


def with_part(page: str, name: str, text: str) -> str:
    """Return the page with a new text for the part between the two comments that contain `name`.

    Raises:
        ValueError: The page has no such comments.
    """
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"{PAGE.name} lacks the comments of the part {name!r}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
