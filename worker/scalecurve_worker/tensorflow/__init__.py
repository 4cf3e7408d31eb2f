"""``program: tensorflow``; nothing here is imported before TensorFlow is wanted."""
