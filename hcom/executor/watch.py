"""Watching over a wait: deadlines, lost ranks, and a job in which everybody waits.

A kernel that waits comes back every 100 ms. Between two calls this module looks whether the wait
can still end; the interpreter handles signals there too.
"""

import sys
import time
from collections.abc import Callable

from hcom.errors import NotifyTimeoutError, PeerLostError
from hcom.transport.doorbell import AGAIN
from hcom.transport.host import Host

# Every rank waits or has ended, and none got on for so long: nobody will.
STANDSTILL_SECONDS = 1.0


class Watch:
    """Watches the waits of one operation.

    Parameters
    ----------
    host : the ranks on this host.
    limit : HCCL_EXEC_TIMEOUT, s.
    description : the operation, for the peers' reports and the errors.
    needs : tells which ranks of the world this operation still waits for.
    """

    def __init__(
        self, host: Host, limit: float, description: str, needs: Callable[[], list[int]]
    ) -> None:
        self._host, self._limit = host, limit
        self._description, self._needs = description, needs

    def finish(self, resume: Callable[[], int], progress: Callable[[], int]) -> int:
        """Call `resume` until it returns something else than AGAIN.

        Parameters
        ----------
        resume : runs the operation on; returns AGAIN when nothing came for 100 ms.
        progress : a figure that changes when the operation gets on; the deadline starts anew then.

        Raises
        ------
        PeerLostError : a rank that is needed has ended.
        NotifyTimeoutError : nothing came within the limit, or every rank of the job waits.
        """
        self._host.wait_begins(self._description)
        since, seen = time.monotonic(), progress()
        still_since, still = time.monotonic(), self._host.standstill()
        looks = self._host.looks()
        try:
            while (came := resume()) == AGAIN:
                now = time.monotonic()
                self._host.look()
                if progress() != seen:
                    since, seen = now, progress()
                figures = self._host.standstill()
                if figures is None or figures != still:
                    still_since, still, looks = now, figures, self._host.looks()
                for_sure = figures and self._all_looked(looks)
                self._look(now - since, now - still_since if for_sure else 0.0)
        finally:
            self._host.wait_ends()
        return came

    def _all_looked(self, before: list[int]) -> bool:
        """Whether every rank has looked again since: one that is stopped may have its data there.

        Twice, for its first look may have begun before.
        """
        now = self._host.looks()
        return all(n >= min(b + 2, sys.maxsize) for n, b in zip(now, before, strict=True))

    def _look(self, waited: float, still: float) -> None:
        lost = [rank for rank in self._needs() if rank in self._host.lost()]
        if lost:
            raise PeerLostError(
                f"EI0006: {self._description} waits for rank {lost[0]}, which has ended"
            )
        if still > STANDSTILL_SECONDS:
            others = self._others()
            # One that has found this out first does not wait any more: its report reaches all.
            if self._host.standstill() is not None:
                what = "every rank of the job waits or has ended, so none can go on"
                raise NotifyTimeoutError(f"EI0002: {what}:\n{others}")
        if waited > self._limit:
            raise NotifyTimeoutError(
                f"EI0002: {self._description} got nothing from rank(s) "
                f"{', '.join(map(str, self._needs()))} within HCCL_EXEC_TIMEOUT "
                f"({self._limit:g} s); raise it if they only need longer:\n" + self._others()
            )

    def _others(self) -> str:
        ranks = range(len(self._host.arenas))
        return "\n".join(f"  rank {rank} {self._host.waiting_for(rank)}" for rank in ranks)
