"""Fakes of the ports, held to the same contract suite as the adapters."""
