"""Whether a user's own trainer runs at its own speed while ScaleCurve measures it."""
