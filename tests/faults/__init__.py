"""Reassignments on real brokers with faults at random but seeded points; see docs/faults.md."""
