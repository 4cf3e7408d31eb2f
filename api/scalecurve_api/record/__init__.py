"""What a trial leaves behind: rank files while it runs, one trial record and its tables when it has ended."""
