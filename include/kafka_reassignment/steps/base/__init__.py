"""What every step stands on: its run, what it sees, how it waits, and the batch that it is about."""
