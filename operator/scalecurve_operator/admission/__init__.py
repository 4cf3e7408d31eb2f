"""Which experiments may run now."""
