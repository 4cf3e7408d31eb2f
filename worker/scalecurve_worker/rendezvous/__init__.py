"""How ranks meet outside the program's own collectives: a folder, TCP, MPI, or torch's store."""
