"""Times and bandwidths of all-reduce and the other collectives."""
