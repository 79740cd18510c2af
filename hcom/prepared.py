"""A prepared call: a collective that has run with such arguments before and runs again at once."""

from collections.abc import Callable

import numpy as np

from hcom.arguments import Array
from hcom.device import current
from hcom.executor import again as a
from hcom.executor.session import Session
from hcom.operation import Operation
from hcom.transport.doorbell import CAME

# Whether kernels can read the headers of this numpy's arrays; if not, no call is prepared.
POSSIBLE = a.headers_are_known()
# Collectives whose output may be their input.
_IN_PLACE = ("all_reduce", "reduce", "broadcast")


class Prepared:
    """A bound operation with its entry for the kernel `again`.

    Parameters
    ----------
    shape : of the result on this rank; None where it has none.
    busy : tells whether asynchronous operations of the group are under way.
    """

    __slots__ = (
        "_busy",
        "_device",
        "_dtype",
        "_entry",
        "_kept",
        "_operation",
        "_session",
        "_shape",
        "address",
    )

    def __init__(
        self,
        session: Session,
        operation: Operation,
        x: Array | None,
        shape: tuple[int, ...] | None,
        busy: Callable[[Session], bool],
    ) -> None:
        self._session, self._operation, self._busy = session, operation, busy
        self._shape, self._dtype = shape, operation.request.kind.numpy
        self._entry = np.zeros(a.ENTRY_WORDS, np.int64)
        self.address = int(self._entry.ctypes.data)
        self._fill(x, shape)
        self._attach()

    def _fill(self, x: Array | None, shape: tuple[int, ...] | None) -> None:
        operation, entry = self._operation, self._entry
        elements = 0 if shape is None else int(np.prod(shape, dtype=np.int64))
        entry[a.SESSION], entry[a.PROGRAM] = self._session.address, operation.program.address
        entry[a.BASES] = operation.program.bases
        entry[a.COUNTS] = operation.record.counts.buffer_info()[0]
        entry[a.TIMES] = operation.record.times.buffer_info()[0]
        entry[a.NBYTES], entry[a.SENT] = operation.request.nbytes, operation.program.sent_bytes
        entry[a.X_BYTES] = 0 if x is None else x.nbytes
        entry[a.OUT_BYTES] = elements * self._dtype.itemsize
        entry[a.IN_PLACE] = operation.request.collective in _IN_PLACE

    def _attach(self) -> None:
        """Point the entry at the clocks and the trace of the device of now."""
        operation, entry = self._operation, self._entry
        self._device = device = current()
        request, trace = operation.request, device.trace
        template = trace.template(
            operation.stream,
            request.collective,
            request.nbytes,
            operation.record.group,
            request.kind.name,
            request.op,
        )
        self._kept = np.frombuffer(template, np.uint8)
        entry[a.TEMPLATE] = self._kept.ctypes.data
        entry[a.COMPUTE_CLOCK], entry[a.STREAM_CLOCK] = device.addresses(operation.stream)
        entry[a.RING], entry[a.TRACE_WORDS] = trace.addresses()
        entry[a.CAPACITY] = trace.capacity

    def fits(self, out: Array | None) -> bool:
        """Tell whether an output given by the caller is of the result's shape and type."""
        return out is None or (
            type(out) is np.ndarray and out.shape == self._shape and out.dtype == self._dtype
        )

    def result(self) -> Array | None:
        """Make a new array for the result, if this rank has one."""
        return None if self._shape is None else np.empty(self._shape, self._dtype)

    def run(self, x: Array, out: Array | None) -> bool:
        """Run on arrays of the prepared shapes and types.

        Returns
        -------
        bool
            False, before anything has happened, where the call needs the general way.

        Raises
        ------
        HcomError : as the collective.
        """
        session = self._session
        if session.broken or self._busy(session):
            return False
        if current() is not self._device:
            self._attach()
        came = a.again(self.address, id(x), 0 if out is None else id(out))
        if came == CAME:
            return True
        if came == a.UNFIT:
            return False
        session.go_on(came, self._operation.program)
        a.conclude(self.address)
        return True
