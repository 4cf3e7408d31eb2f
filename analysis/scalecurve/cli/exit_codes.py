"""Exit codes of every verb; 0 is success."""

EXIT_FAILED = 1  # a trial failed, or a threshold was missed
EXIT_INPUT = 2
EXIT_ENVIRONMENT = 3  # no cluster, no GPU, no permission
EXIT_INTERRUPTED = 130
