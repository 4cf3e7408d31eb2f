"""What stops the engine, as people should hear it; ``exit_code`` is the command line's."""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot go on; the message says what happened, where, and what to do."""

    exit_code = 3


class BadInput(EngineError):
    """The experiment, or the bundle it is to go to, is not one that can run here."""

    exit_code = 2


class Unavailable(EngineError):
    """This machine lacks what was asked for, or another run holds it."""


class StorageError(EngineError):
    """A file could not be read or written."""
