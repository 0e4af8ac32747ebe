"""The simulator: the product's own steps, operators and triggers in a simulated world.

``python -m tests.simulation --seeds 1-1000`` runs seeds; docs/simulation.md says what is simulated and what is real.
"""
