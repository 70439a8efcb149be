"""Plays the scenes and prints them: in colour on a terminal, plainly in a pipe."""

from rich.console import Console
from rich.markup import escape

from hookgate.proxy.demo.client import agent
from hookgate.proxy.demo.scenes import SCENES, Scene, Shown
from hookgate.proxy.embedded import EmbeddedUpstream


async def play(gateway_url: str, upstream: EmbeddedUpstream) -> int:
    """Play every scene; 0 when all checks hold, 1 when one does not."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"A google-genai client -> hookgate on {gateway_url} -> embedded upstream (not a model)\n")
    failed = 0
    async with agent(gateway_url) as client:
        for number, scene in enumerate(SCENES, 1):
            shown = await scene.play(client, upstream)
            _print(console, number, scene, shown)
            failed += sum(not holds for holds in shown.checks.values())
    if failed:
        console.print(f"[bold red]{failed} checks failed[/]")
        return 1
    console.print(f"[bold green]All {len(SCENES)} scenes went as they should.[/]")
    console.print("Next: hookgate serve --hooks YOUR/settings.json")
    return 0


def _print(console: Console, number: int, scene: Scene, shown: Shown) -> None:
    console.print(f"[bold]{number}. {escape(scene.title)}[/] [dim]({escape(scene.hook)})[/]")
    for who, text in shown.lines:
        console.print(f"   [cyan]agent {who}:[/] {escape(text)}")
    for check, holds in shown.checks.items():
        mark = "[green]ok[/]    " if holds else "[bold red]FAILED[/]"
        console.print(f"   {mark} {escape(check)}")
    console.print()
