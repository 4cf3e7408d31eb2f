"""The local object cache and the index of its trials."""
