"""The proof of a layout: its losses and gradients beside those of the same steps on one NPU.

Rank 0 runs the first steps with the whole model in its own process, on a device of its own, while
the others wait. Where the two part, the error names the step or the tensor.
"""

from typing import NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt

from hcom.device import Device, current, install
from hcom.errors import HcomError
from parallel.config import ParallelConfig
from parallel.group import Group, OneRank
from parallel.layout import Layout, Mesh
from parallel.messages import broadcast_bytes, gather_bytes
from parallel.model import Parameters
from parallel.training import StepResult, Training

Floats = npt.NDArray[np.float32]

LOSS_LIMIT = 2e-6  # relative difference of a step's mean loss
GRADIENT_LIMIT = 1e-5  # relative Frobenius norm of the difference of a tensor's gradients


class VerifyError(HcomError):
    """The run is not the one-NPU run; the text names the first step or tensor that differs."""


class Reference(NamedTuple):
    """What one NPU computes: each step's loss, and the first step's gradients by name."""

    losses: list[float]
    gradients: dict[str, Floats]


class Verification:
    """Compares a run with its reference, step by step; only rank 0 holds the reference.

    Parameters
    ----------
    config : of the run.
    steps : how many of the first steps are compared; 0 compares nothing.
    world : all ranks.

    Attributes
    ----------
    loss_difference, gradient_difference : the largest relative difference so far, on rank 0; None
        before any comparison.
    """

    def __init__(self, config: ParallelConfig, steps: int, world: Group) -> None:
        self.steps, self.world = steps, world
        self.loss_difference: float | None = None
        self.gradient_difference: float | None = None
        self._problems: list[str] = []
        self._reference = Reference([], {})
        if steps and world.rank == 0:
            self._reference = reference(config, steps)
        world.barrier()

    def compare(self, step: int, result: StepResult, training: Training) -> None:
        """Compare one step right after it; every rank calls it.

        Raises
        ------
        VerifyError : after the last compared step, on every rank, when anything was too far off.
        """
        if step > self.steps:
            return
        if step == 1:
            self._compare_gradients(training)
        if self.world.rank == 0:
            self._compare_loss(step, result.loss)
        if step == self.steps:
            self._conclude()

    def _compare_loss(self, step: int, loss: float) -> None:
        expected = self._reference.losses[step - 1]
        difference = abs(loss - expected) / abs(expected)
        self.loss_difference = max(difference, self.loss_difference or 0.0)
        if not difference <= LOSS_LIMIT:
            self._problems.append(
                f"the loss of step {step} is {loss:.9g} here and {expected:.9g} on one NPU: "
                f"{difference:.2e} relative, allowed {LOSS_LIMIT:g}"
            )

    def _compare_gradients(self, training: Training) -> None:
        pipeline = training.mesh.pp
        payloads = gather_bytes(_pack(training.parameters), pipeline)
        if self.world.rank != 0:
            return
        found = {name: array for payload in payloads for name, array in _unpack(payload).items()}
        for name, expected in self._reference.gradients.items():
            self._compare_gradient(name, found.get(name), expected)

    def _compare_gradient(self, name: str, found: Floats | None, expected: Floats) -> None:
        if found is None:
            self._problems.append(f"the gradient of {name} is on no pipeline stage")
            return
        difference = relative_difference(found, expected)
        self.gradient_difference = max(difference, self.gradient_difference or 0.0)
        if not difference <= GRADIENT_LIMIT:
            self._problems.append(
                f"the gradient of {name} in step 1 differs from the one-NPU run's by "
                f"{difference:.2e} relative in Frobenius norm, allowed {GRADIENT_LIMIT:g}"
            )

    def _conclude(self) -> None:
        text = broadcast_bytes((self._problems or [" "])[0].encode(), self.world).decode()
        if text.strip():
            raise VerifyError(f"verify: {text}")


def reference(config: ParallelConfig, steps: int) -> Reference:
    """Run the first steps on one NPU: a group of one, and a device that is put away afterwards."""
    device = current()
    install(Device(device.profile))
    try:
        training = Training(config, one_rank_mesh())
        first = training.step(1).loss
        parameters = training.parameters
        gradients = {p.name: np.array(p.gradient) for p in parameters}
        return Reference(
            [first, *(training.step(step).loss for step in range(2, steps + 1))], gradients
        )
    finally:
        install(device)


def one_rank_mesh() -> Mesh:
    """Make the mesh of one NPU, without a communicator."""
    layout, one = Layout(), OneRank()
    return Mesh(layout, layout.coordinates(0), pp=one, dp=one, sp=one, tp=one, dp_sp=one)


def relative_difference(found: Floats, expected: Floats) -> float:
    """Frobenius norm of the difference over that of `expected`, in float64."""
    wide = expected.astype(np.float64)
    difference = float(np.linalg.norm(found - wide))
    scale = float(np.linalg.norm(wide))
    return difference / scale if scale else difference


def _pack(parameters: Parameters) -> bytes:
    rows = {p.name: [list(p.shape), p.gradient.tobytes()] for p in parameters}
    packed: bytes = msgpack.packb(rows)
    return packed


def _unpack(payload: bytes) -> dict[str, Floats]:
    rows = msgpack.unpackb(payload)
    return {name: np.frombuffer(raw, "<f4").reshape(shape) for name, (shape, raw) in rows.items()}
