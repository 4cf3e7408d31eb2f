"""Layouts of parallelism on torch's own parts: tensor, pipeline, context, sharded and replicated data, experts."""
