"""How a group runs a checked call: bound once, on contiguous arrays, here or asynchronously."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from hcom import calls
from hcom.arguments import Array, contiguous, same_memory
from hcom.calls import Algorithm, Call, Place
from hcom.data_type import data_type_of
from hcom.executor.session import Session
from hcom.operation import KEPT, Binder, Request
from hcom.prepared import POSSIBLE, Prepared
from hcom.runtime import Runtime
from hcom.topology import Topology

Result = Any  # the array (None where this rank has no result); a Work with async_op=True


class Caller:
    """A group's way from a checked call to its result.

    Parameters
    ----------
    name : of the group, in traces and statistics.
    session : the members' shared memory.
    topology : of the members, for the device clock.
    runtime : what all groups of the process share.
    """

    def __init__(self, name: str, session: Session, topology: Topology, runtime: Runtime) -> None:
        self._name, self._session, self._topology = name, session, topology
        self._runtime = runtime
        self._place = Place(session.rank, len(session.ranks))
        self._binder = Binder(name, session, topology, runtime.statistics)
        self._prepared: dict[Hashable, Prepared] = {}

    @property
    def rank(self) -> int:
        """Rank of this process in the group."""
        return self._place.rank

    @property
    def usable(self) -> bool:
        """Whether no operation of the group has failed or was left."""
        return not self._session.broken

    @property
    def rank_size(self) -> int:
        """Number of members."""
        return self._place.rank_size

    def bind(self, name: str, x: Array, *args: Any, **options: Any) -> Callable[[], Result]:
        """Check and bind a collective once; calling the result runs it again on the same arrays.

        Parameters
        ----------
        name : of a collective, not scatter or all_to_all_v.
        x, args, options : as for the collective itself; without `out` every call returns one and
            the same array.
        """
        if name not in calls.BOUND:
            raise ValueError(f"bind knows {', '.join(calls.BOUND)}, not {name!r}")
        call = calls.BOUND[name](self._place, x, *args, **options)
        out = call.result()
        prepared = self._prepare(call)
        if prepared is None:
            return lambda: self._run(call, out, False)
        run, general = prepared.run, self._run

        def bound() -> Result:
            return out if run(x, out) else general(call, out, False)

        return bound

    def _call(
        self,
        check: Callable[..., Call],
        x: Array,
        arguments: tuple[Hashable, ...],
        out: Array | None,
        algorithm: Algorithm,
        async_op: bool,
    ) -> Result:
        """Run a collective, by the short way if its like has run before."""
        key, prepared = None, None
        if type(x) is np.ndarray and not async_op:
            key = (check, arguments, algorithm, x.shape, x.dtype)
            prepared = self._prepared.get(key)
            if prepared is not None:
                target = out if out is not None else prepared.result()
                if prepared.run(x, target):
                    return target
        call = check(self._place, x, *arguments, out=out, algorithm=algorithm)
        result = self._do(call, async_op)
        if key is not None and prepared is None:
            self._keep(key, self._prepare(call))
        return result

    def _keep(self, key: Hashable, prepared: Prepared | None) -> None:
        if prepared is not None:
            if len(self._prepared) == KEPT:
                self._prepared.clear()
            self._prepared[key] = prepared

    def _prepare(self, call: Call) -> Prepared | None:
        """Make the short way of a call, where there is one."""
        if not POSSIBLE or call.divisor != 1 or call.x is None:
            return None
        return Prepared(self._session, self._binder.bind(call.request), call.x, call.shape)

    def _do(self, call: Call, async_op: bool) -> Result:
        return self._run(call, call.result(), async_op)

    def _run(self, call: Call, out: Array | None, async_op: bool) -> Result:
        """Run a call into `out`, here or on the communication thread."""
        operation = self._binder.bind(call.request)
        target = out
        if target is not None and not target.flags.c_contiguous:
            target = np.empty(target.shape, target.dtype)
        in_place = call.x is not None and target is not None and same_memory(call.x, target)
        source = target if in_place or call.x is None else contiguous(call.x)
        engine = self._runtime.engine
        if not async_op and not engine.busy(self._session):
            operation.run(self._session, source, target)
            return _deliver(call, target, out)
        self._session.refuse_if_broken()
        work = operation.start(self._session, source, target, lambda: _deliver(call, target, out))
        engine.submit(work, self._session)
        return work if async_op else work.wait()

    def _numbers(self, values: Sequence[int], detail: str) -> list[list[int]]:
        """Exchange a few integers; every member gets all rows."""
        mine = np.array([values], np.int64)
        total = mine.nbytes * self.rank_size
        request = Request("all_gather", data_type_of(mine), "", 0, total, total, "mesh", detail)
        gathered = self._do(Call(request, mine, (self.rank_size, len(values)), None), False)
        rows: list[list[int]] = gathered.tolist()
        return rows


def _deliver(call: Call, target: Array | None, out: Array | None) -> Array | None:
    """Finish a call's result: divide an average, fill an output that is not contiguous."""
    if target is None or out is None:
        return None
    if call.divisor != 1:
        np.divide(target, target.dtype.type(call.divisor), out=target)
    if target is not out:
        out[...] = target
    return out
