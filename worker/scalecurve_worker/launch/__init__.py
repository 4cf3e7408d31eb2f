"""What a pod runs: its role, the processes it starts, their output, and sshd for mpirun."""
