"""Plugins for pytest and notebooks."""
