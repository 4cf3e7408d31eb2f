"""Features: what is added to the core without its knowing. Each has a folder with its manifest, which is text alone."""
