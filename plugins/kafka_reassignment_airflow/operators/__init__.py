"""Operators: one per step, thin; what a step does is in ``kafka_reassignment.steps``."""
