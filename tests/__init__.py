"""All tests; what they share is imported from here."""
