"""``program: tensorflow``; imported only when a trial runs it."""
