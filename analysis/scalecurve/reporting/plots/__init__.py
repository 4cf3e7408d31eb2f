"""The plots of a report, one module each; a new module here registers itself."""
