"""A call that has run before, from the arrays' own headers to the trace, in one kernel call.

What a call costs beside the data is Python: reading two addresses, three clocks, a trace record
and five counters takes longer than the collective itself. Here the kernel reads the headers of
the numpy arrays (it gets them as object addresses), compares type and shape with those that the
program is for, runs it and does the accounting.
"""

import ctypes
import sys
from typing import Any

import numpy as np

from hcom.executor import tables as t
from hcom.executor.run import run
from hcom.executor.tables import words
from hcom.jit import jit
from hcom.transport.atomics import (
    load_float,
    load_int,
    load_int32,
    memcpy,
    monotonic,
    store_float,
    store_int,
    store_int32,
)
from hcom.transport.doorbell import CAME

# What `again` returns beside the results of `run`: the arrays need the general way.
UNFIT = 4

# Words of an entry
(
    SESSION,
    PROGRAM,
    BASES,
    COMPUTE_CLOCK,
    STREAM_CLOCK,
    RING,  # address of the trace's ring
    CAPACITY,  # records in it
    TRACE_WORDS,
    TEMPLATE,  # address of a record to copy
    COUNTS,
    TIMES,
    NBYTES,
    SENT,
    X_BYTES,
    OUT_BYTES,
    IN_PLACE,  # 1 where the output may be the input
    STARTED,  # ns, of the run under way
    START,  # float64: its device clock
    DEVICE_AT,  # address of the number of devices installed so far
    DEVICE,  # that number when the clocks and the trace were looked up
    CLASS,  # of the arrays (`id` of numpy.ndarray)
    KIND,  # of their elements (`id` of the dtype)
    X_DIMENSIONS,
    X_SHAPE,  # address of int64[X_DIMENSIONS]
    OUT_DIMENSIONS,
    OUT_SHAPE,
    ENTRY_WORDS,
) = range(27)

# Offsets in the record of a trace, see hcom.device.trace
RECORD_BYTES = 80
R_WALL_START, R_WALL_END, R_DEVICE_START, R_DEVICE_END = 0, 8, 16, 24
R_SEQUENCE, R_STEP = 40, 56

# Where an object keeps its class, and an array its data's address, number of dimensions, shape's
# address, dtype and flags (Python's PyObject, numpy's PyArrayObject_fields).
CLASS_AT, DATA_AT, DIMENSIONS_AT, SHAPE_AT, KIND_AT, FLAGS_AT = 8, 16, 24, 32, 56, 64
CONTIGUOUS, WRITEABLE = 0x1, 0x400


def headers_are_known() -> bool:
    """Tell whether arrays of this Python and numpy look as this module believes."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**63 - 1:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    whole = np.arange(12.0).reshape(3, 4)
    frozen = whole[1:].copy()
    frozen.flags.writeable = False
    both = CONTIGUOUS | WRITEABLE
    wanted = ((whole, both), (whole[:, 1:], WRITEABLE), (frozen, CONTIGUOUS))
    return all(_looks_like(x, flags) for x, flags in wanted)


def _looks_like(x: np.ndarray, wanted: int) -> bool:
    # Through ctypes: nothing is compiled for a look at import.
    word, half = ctypes.c_int64.from_address, ctypes.c_int32.from_address
    address = id(x)
    dimensions = half(address + DIMENSIONS_AT).value
    shape_at = word(address + SHAPE_AT).value
    found = (
        word(address + CLASS_AT).value,
        word(address + DATA_AT).value,
        tuple(word(shape_at + 8 * i).value for i in range(dimensions)),
        word(address + KIND_AT).value,
        half(address + FLAGS_AT).value & (CONTIGUOUS | WRITEABLE),
    )
    return found == (id(np.ndarray), x.ctypes.data, x.shape, id(x.dtype), wanted)


@jit(inline=True)
def _is_like(entry: Any, array: int, dimensions: int, shape: int) -> bool:
    """Whether an object is an array of the entry's type, and of a shape."""
    if load_int(array + CLASS_AT) != entry[CLASS] or load_int(array + KIND_AT) != entry[KIND]:
        return False
    if load_int32(array + DIMENSIONS_AT) != entry[dimensions]:
        return False
    found, wanted = load_int(array + SHAPE_AT), entry[shape]
    for i in range(entry[dimensions]):
        if load_int(found + 8 * i) != load_int(wanted + 8 * i):
            return False
    return True


@jit(inline=True)
def _take_arrays(entry: Any, x: int, out: int) -> bool:
    """Point the program at the arrays, if they are as bound and overlap only as they may."""
    if not _is_like(entry, x, X_DIMENSIONS, X_SHAPE):
        return False
    if load_int32(x + FLAGS_AT) & CONTIGUOUS == 0:
        return False
    source, target = load_int(x + DATA_AT), 0
    if out != 0:
        if not _is_like(entry, out, OUT_DIMENSIONS, OUT_SHAPE):
            return False
        if load_int32(out + FLAGS_AT) & (CONTIGUOUS | WRITEABLE) != CONTIGUOUS | WRITEABLE:
            return False
        target = load_int(out + DATA_AT)
        if source == target:
            if entry[IN_PLACE] == 0:
                return False
        elif source < target + entry[OUT_BYTES] and target < source + entry[X_BYTES]:
            return False
    store_int(entry[BASES] + 8 * t.INPUT, source)
    store_int(entry[BASES] + 8 * t.OUTPUT, target)
    return True


@jit(inline=True)
def _is_free(entry: Any, session: Any) -> bool:
    """Whether the group works, has nothing under way, and the device is still the entry's."""
    if session[t.BROKEN] != 0 or load_int(entry[DEVICE_AT]) != entry[DEVICE]:
        return False
    queue = session[t.QUEUE]
    return bool(queue == 0 or load_int(queue) == load_int(queue + 8))


@jit()
def conclude(entry_at: int) -> None:
    """Account for the run that has just ended: clocks, trace, counters."""
    entry = words(entry_at, ENTRY_WORDS)
    session = words(entry[SESSION], t.SESSION_WORDS)
    start, end = load_float(entry_at + 8 * START), load_float(session[t.CLOCK])
    ended = monotonic()
    store_float(entry[STREAM_CLOCK], end)
    store_float(entry[COMPUTE_CLOCK], max(load_float(entry[COMPUTE_CLOCK]), end))
    trace = words(entry[TRACE_WORDS], 2)
    place = entry[RING] + trace[0] % entry[CAPACITY] * RECORD_BYTES
    trace[0] += 1
    memcpy(place, entry[TEMPLATE], RECORD_BYTES)
    store_float(place + R_WALL_START, entry[STARTED] * 1e-9)
    store_float(place + R_WALL_END, ended * 1e-9)
    store_float(place + R_DEVICE_START, start)
    store_float(place + R_DEVICE_END, end)
    store_int(place + R_SEQUENCE, session[t.SEQUENCE])
    store_int32(place + R_STEP, trace[1])
    counts = words(entry[COUNTS], 3)
    counts[0] += 1
    counts[1] += entry[NBYTES]
    counts[2] += entry[SENT]
    times = entry[TIMES]
    store_float(times, load_float(times) + (ended - entry[STARTED]) * 1e-9)
    store_float(times + 8, load_float(times + 8) + (end - start))


@jit()
def again(entry_at: int, x: int, out: int) -> int:
    """Run a bound operation on two arrays and account for it.

    Parameters
    ----------
    entry_at : address of the entry's words.
    x, out : addresses of the arrays as objects (`id`); out is 0 where this rank has no result.

    Returns
    -------
    int
        As `run`; or UNFIT, before anything has happened, where an argument is not a contiguous
        array as bound, or overlaps the other one; where the group is broken or busy; where the
        entry is attached to a device of the past.
    """
    entry = words(entry_at, ENTRY_WORDS)
    session = words(entry[SESSION], t.SESSION_WORDS)
    if not (_is_free(entry, session) and _take_arrays(entry, x, out)):
        return UNFIT
    start = max(load_float(entry[STREAM_CLOCK]), load_float(entry[COMPUTE_CLOCK]))
    store_float(entry_at + 8 * START, start)
    store_float(session[t.CLOCK], start)
    entry[STARTED] = monotonic()
    session[t.SEQUENCE] += 1
    came = run(entry[SESSION], entry[PROGRAM])
    if came == CAME:
        conclude(entry_at)
    return came
