"""meantime inside other programs: pytest and notebooks."""
