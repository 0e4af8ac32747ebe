"""What a batch goes on without: blocked, left out, left open or taken out of it, and what is left over at the end."""
