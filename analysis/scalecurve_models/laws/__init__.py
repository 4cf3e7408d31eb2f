"""Scaling laws: Amdahl, Gustafson, the universal scalability law and the ring form, judged by what they did not see."""
