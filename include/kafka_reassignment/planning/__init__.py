"""Pure decisions: every function takes what is wanted and what the cluster shows, and returns what is left to do."""
