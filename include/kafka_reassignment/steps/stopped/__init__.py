"""What a stopped or superseded reassignment has left half-way, and how it is settled."""
