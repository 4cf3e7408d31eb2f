"""Errors that stop the engine; ``exit_code`` is the command line's."""


class EngineError(Exception):
    """The engine cannot go on; the message says what happened, where, and what to do."""

    exit_code = 3


class InputError(EngineError):
    """The experiment or its bundle cannot run here."""

    exit_code = 2


class UnavailableError(EngineError):
    """This machine lacks what the experiment needs, or another run holds it."""


class StorageError(EngineError):
    """A file could not be read or written."""
