"""Plays the containers of trials' pods on fake nodes."""
