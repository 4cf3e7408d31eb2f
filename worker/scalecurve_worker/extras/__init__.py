"""Optional parts, loaded by name when a trial uses them: Horovod, parameter servers, compression, quantization."""
