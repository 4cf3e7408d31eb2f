"""The process that supervises a trial's processes, and cleanup after supervisors that died."""
