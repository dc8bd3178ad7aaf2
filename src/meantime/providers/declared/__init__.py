"""Providers declared in TOML: which events change which attributes, and how."""

from meantime.providers.declared.provider import DeclaredProvider, declare

__all__ = ["DeclaredProvider", "declare"]
