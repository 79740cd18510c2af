"""Going on from a checkpoint: what one holds of a run, and which runs may go on from it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hcom.errors import ConfigError
from parallel import checkpoint
from parallel.checkpoint import Array, State
from parallel.config import ParallelConfig
from parallel.group import Group
from parallel.metrics import NAME, read_records
from parallel.training import Training

MAY_DIFFER = {"training.steps"}  # a longer run goes on from a shorter one's end


@dataclass(frozen=True)
class Begin:
    """Where a run begins: at step 0 with nothing, or after a checkpoint's step.

    Attributes
    ----------
    step : the last step that is done.
    records : of `metrics.jsonl` of the run that wrote the checkpoint, up to that step.
    arrays : this rank's arrays by name.
    run_dir : directory of the run that wrote the checkpoint.
    """

    step: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    run_dir: Path | None = None

    @classmethod
    def load(cls, path: Path | None, rank: int, config: ParallelConfig) -> "Begin":
        """Read this rank's share of a checkpoint; a run without one begins at step 0.

        Raises
        ------
        ConfigError : there is no whole checkpoint, or it was written under another config.
        """
        if path is None:
            return cls()
        whole = checkpoint.find(path)
        _refuse_differences(path, checkpoint.load_state(whole, 0)["config"], config)
        state, arrays = checkpoint.load(whole, rank)
        run_dir = whole.parent.parent if whole.parent.name == "checkpoints" else None
        records = read_records(run_dir / NAME, state["step"]) if run_dir else []
        return cls(state["step"], records, arrays, run_dir)

    def restore(self, training: Training) -> None:
        """Put the arrays into a training that was made with the same config."""
        views = _arrays(training)
        for name, array in self.arrays.items():
            views[name][...] = array


def save(root: Path, step: int, training: Training, world: Group) -> Path:
    """Write a checkpoint of a training after a step; every rank of the world calls it.

    It holds nothing that depends on the machine or the time: runs that did the same steps, in one
    go or in several, write the same bytes.
    """
    state = {"step": step, "config": training.config.model_dump(mode="json")}
    return checkpoint.save(root, step, state, _arrays(training), world)


def _refuse_differences(path: Path, written: State, config: ParallelConfig) -> None:
    theirs, ours = _keys(written), _keys(config.model_dump(mode="json"))
    differ = [
        key
        for key in sorted(theirs.keys() | ours.keys())
        if theirs.get(key) != ours.get(key) and key not in MAY_DIFFER
    ]
    if differ:
        raise ConfigError(
            f"--resume {path}: it was written with {_listed(theirs, differ)}, this run has "
            f"{_listed(ours, differ)}; go on with the values it was written with"
        )


def _keys(config: State, prefix: str = "") -> State:
    """Give nested sections as one mapping: "pipeline.stages" -> 2."""
    flat: State = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        flat |= _keys(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def _listed(values: State, keys: list[str]) -> str:
    return ", ".join(f"{key} = {values.get(key)}" for key in keys)


def _arrays(training: Training) -> dict[str, Array]:
    """Name what changes from step to step: every parameter, and its two moments."""
    flats = {
        "value": training.parameters.values,
        "m": training.optimizer.m,
        "v": training.optimizer.v,
    }
    return {
        f"{kind}/{name}": view
        for kind, flat in flats.items()
        for name, view in training.parameters.views(flat).items()
    }
