"""What people ask for: lists and descriptions of reassignments. Views read; they change nothing."""
