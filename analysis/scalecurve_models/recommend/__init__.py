"""Which worker count is fastest, cheapest or best within a limit, and how certain that is."""
