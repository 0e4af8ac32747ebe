"""Hooks: they own the connections."""
