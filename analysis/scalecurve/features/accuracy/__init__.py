"""Results of training to an accuracy."""
