"""Numbers that others measured, from files of other tools -> a bundle that every verb takes, marked as imported."""
