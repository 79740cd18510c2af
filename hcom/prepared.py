"""A prepared call: a collective that has run with such arguments before and runs again at once."""

import numpy as np

from hcom.arguments import Array
from hcom.device import INSTALLED, current
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
    """

    __slots__ = (
        "_device",
        "_dtype",
        "_entry",
        "_kept",
        "_operation",
        "_session",
        "_shape",
        "_shapes",
        "address",
    )

    def __init__(
        self,
        session: Session,
        operation: Operation,
        x: Array,
        shape: tuple[int, ...] | None,
    ) -> None:
        self._session, self._operation = session, operation
        self._shape, self._dtype = shape, operation.request.kind.numpy
        self._entry = np.zeros(a.ENTRY_WORDS, np.int64)
        self.address = int(self._entry.ctypes.data)
        self._fill(x, shape)
        self._attach()

    def _fill(self, x: Array, shape: tuple[int, ...] | None) -> None:
        operation, entry = self._operation, self._entry
        elements = 0 if shape is None else int(np.prod(shape, dtype=np.int64))
        entry[a.SESSION], entry[a.PROGRAM] = self._session.address, operation.program.address
        entry[a.BASES] = operation.program.bases
        entry[a.COUNTS] = operation.record.counts.buffer_info()[0]
        entry[a.TIMES] = operation.record.times.buffer_info()[0]
        entry[a.NBYTES], entry[a.SENT] = operation.request.nbytes, operation.program.sent_bytes
        entry[a.X_BYTES] = x.nbytes
        entry[a.OUT_BYTES] = elements * self._dtype.itemsize
        entry[a.IN_PLACE] = operation.request.collective in _IN_PLACE
        entry[a.CLASS], entry[a.KIND] = id(np.ndarray), id(self._dtype)
        self._shapes = [np.array(dims or (0,), np.int64) for dims in (x.shape, shape)]
        entry[a.X_DIMENSIONS] = x.ndim
        entry[a.OUT_DIMENSIONS] = -1 if shape is None else len(shape)  # -1: none fits
        entry[a.X_SHAPE], entry[a.OUT_SHAPE] = (dims.ctypes.data for dims in self._shapes)
        entry[a.DEVICE_AT] = INSTALLED.buffer_info()[0]

    def _attach(self) -> None:
        """Point the entry at the clocks and the trace of the device of now."""
        operation, entry = self._operation, self._entry
        self._device = device = current()
        entry[a.DEVICE] = INSTALLED[0]
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
        came = a.again(self.address, id(x), 0 if out is None else id(out))
        if came == CAME:
            return True
        if came == a.UNFIT:
            if current() is self._device:
                return False
            self._attach()
            return self.run(x, out)
        self._session.go_on(came, self._operation.program)
        a.conclude(self.address)
        return True
