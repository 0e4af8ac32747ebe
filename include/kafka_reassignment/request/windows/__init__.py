"""Maintenance windows of a request: their spec, the rules that it contains, and local clocks."""
