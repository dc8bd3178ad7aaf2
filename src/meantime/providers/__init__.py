"""Providers: what events mean. A provider is a `StateProvider`, or is declared in a TOML file."""

from meantime.providers.base import StateProvider
from meantime.providers.loading import load_provider

__all__ = ["StateProvider", "load_provider"]
