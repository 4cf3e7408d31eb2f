"""What a step would take at a count that was not run, from its program, one measured worker and the links."""
