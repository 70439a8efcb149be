"""Write the generated parts of docs/performance.md and benchmarks/figures from the stored figures.

python -m benchmarks.gateway.pages [--check]
"""

import sys
from pathlib import Path
from textwrap import fill

from benchmarks.gateway.instructions import ComparedCounts, read_counts
from benchmarks.gateway.loads import LOADS
from benchmarks.gateway.pages.added import added_times
from benchmarks.gateway.pages.figures import Figures, read
from benchmarks.gateway.pages.picture import picture
from benchmarks.gateway.pages.tables import as_markdown, circumstances, table
from benchmarks.gateway.pages.targets import targets_table
from benchmarks.gateway.profiles import Profiles, read_profiles

ROOT = Path(__file__).parents[3]
STORED = ROOT / "benchmarks" / "figures"
FIGURES = STORED / "gateway.json"
PROFILES = STORED / "profiles.json"
INSTRUCTIONS = STORED / "instructions.json"
PICTURE = ROOT / "docs" / "figures" / "gateway.svg"
PAGES = {
    ROOT / "docs" / "performance.md": ("added", "targets", "instructions"),
    STORED / "README.md": ("figures", "profile"),
}
"""The pages with generated parts, and the names of these parts."""


def main() -> int:
    """Write the files. With --check, write nothing, and return 1 if one of them is outdated."""
    figures, profiles, counts = read(FIGURES), read_profiles(PROFILES), read_counts(INSTRUCTIONS)
    parts = generated(figures, profiles, counts)
    wanted = {PICTURE: picture(figures)}
    for path, names in PAGES.items():
        page = path.read_text()
        for name in names:
            page = with_part(page, name, parts[name])
        wanted[path] = page
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
    """Return the generated parts of the pages by name."""
    loads = [
        f"### {load}\n\n{fill(LOADS[load].description, 120)}\n\n{as_markdown(table(figures, load))}"
        for load in figures.samples
    ]
    about = "\n".join(f"- {line}" for line in circumstances(figures).splitlines())
    return {
        "added": added_times(figures),
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
        raise ValueError(f"the page lacks the comments of the part {name!r}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
