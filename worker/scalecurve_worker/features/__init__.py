"""Optional features, loaded by name when a trial uses them."""
