"""How ranks meet outside the program's own collectives: a folder, TCP, MPI, or the torch store."""
