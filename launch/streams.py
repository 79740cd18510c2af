"""The output of ranks: each rank's text passes through in whole lines, so that none are torn."""

import os

_CHUNK = 1 << 16  # bytes read at once, and held at most while waiting for the end of a line


class Stream:
    """One rank's standard output or error, on its way to ours."""

    def __init__(self, source: int, sink: int, *, whole_lines: bool = True) -> None:
        """Take the descriptors to read from and to write to."""
        os.set_blocking(source, False)
        self.source, self.sink = source, sink
        self._broken = False
        self._whole_lines = whole_lines
        self._held = b""

    def pump(self) -> bool:
        """Pass on what has arrived; False if that is nothing."""
        try:
            data = os.read(self.source, _CHUNK)
        except OSError:  # nothing now
            data = b""
        text = self._held + data
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1  # a progress bar ends a line by \r
        if not self._whole_lines or len(text) - end > _CHUNK:
            end = len(text)
        self._held = text[end:]
        self._write(text[:end])
        return bool(data)

    def close(self) -> None:
        """Pass on all that is left, also the start of a line that was never ended."""
        while self.pump():
            pass
        self._write(self._held)
        os.close(self.source)

    def _write(self, text: bytes) -> None:
        try:
            while text and not self._broken:
                text = text[os.write(self.sink, text) :]
        except BrokenPipeError:
            self._broken = True
            raise
