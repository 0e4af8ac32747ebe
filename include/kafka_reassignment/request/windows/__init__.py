"""Maintenance windows as a request names them."""
