"""What a rank writes: journal, record, and the copy sent through the log."""
