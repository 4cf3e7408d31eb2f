"""Scaling laws: Amdahl, Gustafson, the universal scalability law and the ring form, cross-validated."""
