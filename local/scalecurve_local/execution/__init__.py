"""One running trial: its command lines, environments and supervisor."""
