"""Triggers: they look at the cluster while a sensor is deferred."""
