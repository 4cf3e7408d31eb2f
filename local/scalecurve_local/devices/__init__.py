"""The cores and GPUs of this machine: which there are, who has them, and which worker gets which."""
