"""Host and device activity around the timed steps, and the live metrics."""
