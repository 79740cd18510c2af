"""How long one rank's positions are needed: what a write may leave out, and whom it must wait for.

A position that a round writes and the next one stages goes to both places at once (its *twin* is
in the next slot). Where nothing else ever reads it and the output does not hold it, the twin is
all that is written. Where nothing reads the output again, it is written past the caches.

A position may also be read by peers straight from this rank's registered arrays. Who overwrites
it later, or returns to its caller, waits for those readers first.
"""

from hcom.executor.rounds import Move, Staged, written


class Lifetime:
    """When one rank's positions are written and read, by round.

    Parameters
    ----------
    rank : whose positions.
    rounds, layouts : what each round moves and what each rank stages in it.
    """

    def __init__(self, rank: int, rounds: list[list[Move]], layouts: list[Staged]) -> None:
        self._rank, self._rounds, self._layouts = rank, rounds, layouts
        self._changed = [written(one) for one in rounds]
        self._last_read: dict[int, int] = {}
        for number, one in enumerate(rounds):
            for move in one:
                if move.src == rank:
                    self._last_read[move.src_chunk] = number
                if move.dst == rank and move.reduce:
                    self._last_read[move.dst_chunk] = number

    def changes(self, number: int, rank: int, position: int) -> bool:
        """Tell whether a round writes a position."""
        return (rank, position) in self._changed[number]

    def has_twin(self, number: int, position: int) -> bool:
        """Tell whether what a round writes there is staged by the next one."""
        after = number + 1
        return after < len(self._rounds) and position in self._layouts[after].get(self._rank, {})

    def is_fused(self, number: int, position: int) -> bool:
        """Tell whether the round before writes what a round stages, and so its slot."""
        return number > 0 and self.changes(number - 1, self._rank, position)

    def ends(self, number: int, position: int) -> bool:
        """Tell whether nothing reads what a round writes there, but for its twin."""
        last = self._last_read.get(position, -1)
        if last <= number:
            return True
        return last == number + 1 and not self._read_here(last, position)

    def _read_here(self, number: int, position: int) -> bool:
        """Whether this rank itself reads a position in a round, from where it lives."""
        return any(
            (move.src == move.dst == self._rank and move.src_chunk == position)
            or (move.dst == self._rank and move.reduce and move.dst_chunk == position)
            for move in self._rounds[number]
        )

    def readers(self, number: int) -> dict[int, set[int]]:
        """Tell which peers read which of this rank's positions in a round: {position: peers}.

        Only positions that the round does not write: others are always staged.
        """
        found: dict[int, set[int]] = {}
        for move in self._rounds[number]:
            unchanged = not self.changes(number, move.src, move.src_chunk)
            if move.src == self._rank != move.dst and unchanged:
                found.setdefault(move.src_chunk, set()).add(move.dst)
        return found
