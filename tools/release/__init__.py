"""Makes a release: checks that it is ready, builds its artifacts, and tries them."""
