"""Builds the images of `images/` into the cache, each with its bill of materials."""
