"""The sends and receives of a group, on numpy arrays.

`hcom.batch` checks the messages and makes a table of them, `hcom.executor.message` carries them
out, on the caller's thread or (`async_op=True`) on the communication thread.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from hcom.arguments import Array
from hcom.batch import Batch, Latest, Message, check_message, check_own
from hcom.caller import Caller, Result
from hcom.device import current
from hcom.executor.engine import MESSAGES
from hcom.executor.session import Session
from hcom.runtime import Runtime
from hcom.topology import Topology
from hcom.work import Work


class Messages(Caller):
    """The messages of a group."""

    def __init__(self, name: str, session: Session, topology: Topology, runtime: Runtime) -> None:
        super().__init__(name, session, topology, runtime)
        self._latest: Latest = {}

    def send(self, x: Array, dst: int, tag: int = 0, *, async_op: bool = False) -> Result:
        """Send x to a rank; returns when its `recv` has taken the data (HCCL's rendezvous).

        Two ranks that both send first wait for each other: use `send_recv`, `batch_send_recv`
        or `async_op=True`. Source: HCCL API, HcclSend.
        """
        return self._exchange([("send", x, dst, tag)], None, async_op)

    def recv(self, out: Array, src: int, tag: int = 0, *, async_op: bool = False) -> Result:
        """Receive into `out` what rank `src` sends with this tag; returns `out`.

        Source: HCCL API, HcclRecv.
        """
        return self._exchange([("recv", out, src, tag)], out, async_op)

    def send_recv(
        self, x: Array, dst: int, out: Array, src: int, tag: int = 0, *, async_op: bool = False
    ) -> Result:
        """Send x to `dst` while receiving into `out` from `src`; returns `out`."""
        messages = [("send", x, dst, tag), ("recv", out, src, tag)]
        return self._exchange(messages, out, async_op)

    def batch_send_recv(self, messages: Sequence[Message], *, async_op: bool = False) -> Result:
        """Complete sends and receives together; their order does not matter.

        Parameters
        ----------
        messages : ("send", x, peer, tag) and ("recv", out, peer, tag) tuples. Messages of equal
            peer and tag match in the order of the lists and of the calls.

        Raises
        ------
        TypeError, ValueError : wrong arguments; nothing has been sent.
        MismatchError : a message has another count or type at its other end.

        Source: HCCL API, HcclBatchSendRecv.
        """
        return self._exchange(messages, None, async_op)

    def _exchange(self, messages: Sequence[Message], result: Any, async_op: bool) -> Any:
        """Complete a batch of messages, here or on the communication thread.

        Parameters
        ----------
        messages : as `Communicator.batch_send_recv` takes them.
        result : what the call returns when it is over.

        Raises
        ------
        TypeError, ValueError : wrong arguments; nothing has been sent.
        MismatchError, NotifyTimeoutError, PeerLostError : as the collectives.
        """
        session = self._session
        checked = [check_message(message, session) for message in messages]
        check_own(checked, session.rank)
        session.refuse_if_broken()
        batch = Batch(self._name, session, checked, self._latest)
        batch.depart(self._topology, current().issue(f"comm:{self._name}"))
        engine = self._runtime.engine

        def finish(work: Work) -> Any:
            batch.arrive(work.wall_end, self._runtime.statistics)
            return result

        if async_op or engine.busy(session):
            command = (MESSAGES, batch.address, len(checked))
            work = Work(session, batch.title, command, batch.start, batch.needs, finish)
            engine.submit(work, session)
            return work if async_op else work.wait()
        batch.run()
        batch.arrive(perf_counter(), self._runtime.statistics)
        return result
