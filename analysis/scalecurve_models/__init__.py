"""What a job should do at a size that was not run, by several models, each with its error said."""
