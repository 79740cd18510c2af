"""The device of a rank: its clocks, memory and trace, moved on by operators and collectives.

The clocks count seconds of the emulated NPU, not of this machine: one for the compute stream,
one per communication stream. They depend on the program and the profile alone, so a run gives
the same figures on every machine.
"""

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from hcom.device.memory import MemoryPool
from hcom.device.profile import Profile, load_profile
from hcom.device.trace import Trace

DEFAULT_PROFILE = "ascend910b"

# Places in the array of clocks: the compute stream, its operators' time, then one a stream.
COMPUTE, BUSY, FIRST_STREAM = range(3)
MOST_STREAMS = 1 << 16


class Device:
    """One emulated NPU.

    Parameters
    ----------
    profile : the figures to count with.
    trace : where events go; a ring of 16 MiB by default.

    Attributes
    ----------
    profile, memory, trace : see Profile, MemoryPool and Trace.
    """

    def __init__(self, profile: Profile, trace: Trace | None = None) -> None:
        self.profile = profile
        self.memory = MemoryPool()
        self.trace = Trace() if trace is None else trace
        # An array that stays where it is: collectives move the clocks from their kernel.
        self._clocks = array("d", bytes(8 * MOST_STREAMS))
        self._streams: dict[str, int] = {}

    @property
    def compute_time(self) -> float:
        """Clock of the compute stream, s."""
        return self._clocks[COMPUTE]

    @compute_time.setter
    def compute_time(self, to: float) -> None:
        self._clocks[COMPUTE] = to

    @property
    def busy_time(self) -> float:
        """Sum of the time of all operators, s."""
        return self._clocks[BUSY]

    @busy_time.setter
    def busy_time(self, to: float) -> None:
        self._clocks[BUSY] = to

    def launch(
        self,
        name: str,
        flops: float,
        nbytes: float,
        *,
        launches: int = 1,
        wall_start: float,
        dtype: str = "float32",
    ) -> None:
        """Count one operator that has just run: advance the compute clock and record the event.

        The cost is `launches * launch + max(flops / peak, nbytes / bandwidth)`, a roofline.

        Parameters
        ----------
        name : the operator's name.
        flops : floating-point operations.
        nbytes : bytes read and written in device memory.
        launches : kernels that an NPU would start for it.
        wall_start : time.perf_counter() when it began, s.
        dtype : which peak of the profile counts.

        Raises
        ------
        ValueError : a figure is negative or not a number, or the profile lacks the dtype.
        """
        profile = self.profile
        arithmetic = flops / profile.peak(dtype) if flops else 0.0
        seconds = launches * profile.launch + max(arithmetic, nbytes / profile.bandwidth)
        if not (seconds >= 0.0 and flops >= 0 and nbytes >= 0):
            figures = f"flops={flops}, nbytes={nbytes}, launches={launches}"
            raise ValueError(
                f"operator {name} states a cost that is not a positive figure ({figures})"
            )
        start = self.compute_time
        end = self.compute_time = start + seconds
        self.busy_time += seconds
        self.trace.record(
            "compute", name, wall_start, perf_counter(), start, end, nbytes=int(nbytes), dtype=dtype
        )

    @contextmanager
    def phase(self, kind: str, label: str = "") -> Iterator[None]:
        """Bracket a phase of the trainer: one event on the "phase" stream around what runs inside.

        Parameters
        ----------
        kind : "F", "B", "I", "W" or any other word; the fixed length that the profile may have
            for it is added to the compute clock.
        label : the event's name, for example "F0"; `kind` by default.
        """
        wall_start, start = perf_counter(), self.compute_time
        yield
        self.compute_time += self.profile.phase_time(kind)
        end = self.compute_time
        self.trace.record(
            "phase", label or kind, wall_start, perf_counter(), start, end, kind="phase"
        )

    def issue(self, stream: str) -> float:
        """Tell when an operation issued now on a communication stream starts, s."""
        return max(self._clocks[self._stream(stream)], self.compute_time)

    def settle(self, stream: str, end: float) -> None:
        """Set a communication stream's clock to the end of its last operation, s."""
        self._clocks[self._stream(stream)] = end

    def join(self, end: float) -> None:
        """Let the compute stream wait for `end`, s."""
        self.compute_time = max(self.compute_time, end)

    def clock(self) -> float:
        """Tell the device time of the rank, s: the latest of all its streams."""
        return max(self.compute_time, *self._clocks[FIRST_STREAM : self._end], 0.0)

    def align(self, to: float) -> None:
        """Bring every stream's clock to at least `to`, s (after a step's maximum over ranks)."""
        self.join(to)
        for place in range(FIRST_STREAM, self._end):
            self._clocks[place] = max(self._clocks[place], to)

    def addresses(self, stream: str) -> tuple[int, int]:
        """Tell where the clocks of the compute stream and of a communication stream are."""
        start, _ = self._clocks.buffer_info()
        width = self._clocks.itemsize
        return start + COMPUTE * width, start + self._stream(stream) * width

    @property
    def _end(self) -> int:
        return FIRST_STREAM + len(self._streams)

    def _stream(self, name: str) -> int:
        """Place of a communication stream's clock; a new name gets the next one."""
        place = self._streams.get(name)
        if place is None:
            place = self._end
            if place == MOST_STREAMS:
                raise ValueError(f"no more than {MOST_STREAMS - FIRST_STREAM} streams")
            self._streams[name] = place
        return place


_current: Device | None = None
# How many devices have been installed: kernels that hold addresses of one see that it is replaced.
INSTALLED = array("q", [0])


def current() -> Device:
    """Give the device of this process; one on the `ascend910b` profile is made on first use."""
    return _current if _current is not None else install(Device(load_profile(DEFAULT_PROFILE)))


def install(device: Device) -> Device:
    """Make `device` the one of this process, and return it."""
    global _current
    _current = device
    INSTALLED[0] += 1
    return device
