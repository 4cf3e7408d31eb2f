"""The process a rank runs in: its identity, cores, trial, program, and how it reports failure."""
