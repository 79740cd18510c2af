"""What a member's window tells about its last operations and about a fault."""

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from hcom.transport import layout
from hcom.transport.arena import Arena


class Fault(NamedTuple):
    """The four words of a fault: members are numbered in the group."""

    kind: int
    sequence: int
    odd: int
    finder: int


class Window:
    """A member's window of a communicator, as Python reads it."""

    def __init__(self, arena: Arena, offset: int) -> None:
        self._memory, self._offset = arena.memory, offset
        self.address = arena.address + offset

    def announced(self, sequence: int) -> str | None:
        """Describe the member's operation of this number; None if it has not begun it."""
        kept, size = layout.DESCRIPTORS_KEPT, layout.DESCRIPTOR_BYTES
        place = self._offset + layout.DESCRIPTORS + sequence % kept * size
        number, _, length = struct.unpack_from("<3q", self._memory, place)
        if number < sequence:
            return None
        if number > sequence:
            return f"is past it, at operation {number} or later"
        start = place + layout.TEXT
        return self._memory[start : start + length].decode(errors="replace")

    def fault(self) -> Fault:
        """Read the fault words."""
        at = self._offset + layout.FAULT
        return Fault(*struct.unpack_from("<4q", self._memory, at))


def differing(windows: Sequence[Window], ranks: Sequence[int], sequence: int) -> str:
    """Tell who called what as operation `sequence` of a communicator, the fewest ranks first."""
    callers: dict[str, list[int]] = defaultdict(list)
    for rank, window in zip(ranks, windows, strict=True):
        callers[window.announced(sequence) or "(not called yet)"].append(rank)
    lines = sorted(callers.items(), key=lambda entry: len(entry[1]))
    told = "\n".join(
        f"  rank{'s' * (len(who) > 1)} {', '.join(map(str, who))}: {text}" for text, who in lines
    )
    return (
        f"EI0005: ranks differ in operation {sequence} of this communicator; every rank must call "
        f"the same operation with the same arguments, most likely the program is wrong:\n{told}"
    )
