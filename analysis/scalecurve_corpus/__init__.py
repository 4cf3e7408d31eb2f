"""Points that others published: read from their repositories, kept in one file, their units proved or refused."""
