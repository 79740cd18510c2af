"""What the executor's tests share about spans of positions."""


def extent(spans):
    """Bytes of the array that holds these spans of positions."""
    return max((offset + size for offset, size in spans.values()), default=0)
