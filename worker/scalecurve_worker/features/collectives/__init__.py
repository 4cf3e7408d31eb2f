"""Program ``allreduce``: all-reduce time by message size, over torch.distributed or MPI."""
