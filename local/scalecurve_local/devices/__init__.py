"""The cores and GPUs of this machine: survey, locks, and each worker's share."""
