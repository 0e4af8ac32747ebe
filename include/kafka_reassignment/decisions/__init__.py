"""Pure decisions: each takes what the plan wants and what the cluster shows now, and returns what is left to do."""
