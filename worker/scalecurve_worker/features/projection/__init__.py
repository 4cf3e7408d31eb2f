"""Records the step that a trial would run: the real model and strategy on fake tensors and a fake process group."""
