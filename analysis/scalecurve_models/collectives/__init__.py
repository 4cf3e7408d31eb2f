"""Cost models of all-reduce algorithms: the α-β-γ table, fitted to measured message sizes and worker counts."""
