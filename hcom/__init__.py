"""hcom."""
