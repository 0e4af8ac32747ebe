"""Setting, raising and restoring throttle configs by the journal (KIP-179)."""
