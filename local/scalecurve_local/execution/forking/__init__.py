"""Start trials from one warm process that has their program loaded, where loading would take most of the time."""
