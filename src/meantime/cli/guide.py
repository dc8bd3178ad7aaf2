"""`meantime guide`: how to answer questions about a trace, for agents and scripts."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command", "guide"]

_SKILL = Path(__file__).parent.parent / "skill" / "SKILL.md"
_FENCE = "---\n"


@click.command(
    "guide", epilog="Example:  meantime guide --skill > ~/.claude/skills/meantime/SKILL.md"
)
@click.option(
    "--skill", is_flag=True, help="Print it as a skill file, with a name and what it is for."
)
def command(*, skill: bool) -> None:
    """Print how to answer questions about a trace, for agents: tasks and their commands."""
    click.echo(_SKILL.read_text(encoding="utf-8") if skill else guide(), nl=False)


def guide() -> str:
    """Return the text of the skill file, without what names it."""
    return _SKILL.read_text(encoding="utf-8").split(_FENCE, 2)[2]
