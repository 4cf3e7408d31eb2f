"""Before a run: the plan with times and cost, and the first experiments that fit a machine."""
