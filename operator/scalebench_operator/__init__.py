"""The operator: arrives with issue B; until then this room holds no code and nothing imports it."""
