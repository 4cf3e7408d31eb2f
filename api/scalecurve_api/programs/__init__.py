"""What runs in every worker: the built-in training programs, and the user's own command."""
