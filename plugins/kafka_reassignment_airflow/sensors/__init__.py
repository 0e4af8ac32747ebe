"""Deferrable sensors: they wait without a worker slot."""
