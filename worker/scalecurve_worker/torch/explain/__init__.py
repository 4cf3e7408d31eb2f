"""What a script's own model and its steps are made of: found outside of the timed windows."""
