"""`hooks migrate --from-claude`: Claude Code's hooks into Gemini CLI's settings, and what stays behind."""

from functools import partial
from pathlib import Path

from hookgate.hooks.managing.edits import rewrite, with_hooks, with_switch
from hookgate.hooks.managing.migrate import Migration, migrate, read_claude
from hookgate.proxy.sources import Sources


def migrate_from_claude(sources: Sources, dry_run: bool) -> int:
    """Carry the hooks over, project's to project's and user's to user's settings; print what could not be."""
    project, home = sources.project or Path.cwd(), Path.home()
    found = read_claude(project, home)
    if not found:
        print(f"There are no Claude Code settings in {project / '.claude'} or {home / '.claude'}.")
        return 1
    taken: set[str] = set()
    for path, settings in found:
        migration = migrate(settings, taken)
        taken |= migration.names
        target = path.parent.parent / ".gemini" / "settings.json"
        changed = False if dry_run else rewrite(target, partial(_changed, migration=migration))
        _tell(path, target, migration, changed, dry_run)
    return 0


def _changed(text: str, migration: Migration) -> str:
    text = with_hooks(text, migration.hooks)
    return text if migration.on else with_switch(text, on=False)


def _tell(path: Path, target: Path, migration: Migration, changed: bool, dry_run: bool) -> None:
    names = ", ".join(sorted(migration.names)) or "no hooks"
    done = "would be written to" if dry_run else "written to" if changed else "were already in"
    print(f"{path}: {names} {done} {target}")
    for note in migration.notes:
        print(f"  {note}")
