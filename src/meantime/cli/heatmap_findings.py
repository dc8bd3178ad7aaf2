"""What `meantime heatmap --find` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from meantime.cli.tables import Column, print_table
from meantime.query.offsets import find

if TYPE_CHECKING:
    from meantime.query.offsets import OffsetMap

__all__ = ["print_findings"]


def print_findings(found: OffsetMap) -> None:
    """Print a line for each thing that stands out, or that nothing does."""
    findings = find(found)
    if not findings:
        click.echo("nothing stands out")
        return
    print_table(
        "What stands out",
        [Column("kind"), Column("what")],
        [[finding.kind, finding.sentence] for finding in findings],
    )
