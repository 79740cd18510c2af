"""Sequence parallelism: attention over a sequence that is spread over ranks."""
