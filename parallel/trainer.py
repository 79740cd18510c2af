"""The trainer: runs the steps, proves the layout, keeps checkpoints, and says what came of it."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcom
from hcom.device import current
from hcom.errors import ConfigError, HcomError
from hcom.world import world
from parallel import bubble, resume
from parallel.config import ParallelConfig
from parallel.data import bigram_entropy, corpus
from parallel.findings import gather_collectives, gather_events, write_timelines
from parallel.layout import mesh
from parallel.messages import broadcast_bytes
from parallel.metrics import NAME, Metrics
from parallel.optimizer import learning_rate
from parallel.report import Report
from parallel.training import StepResult, Training
from parallel.verify import Verification

Record = dict[str, Any]

OUTSIDE = -1  # the step number of events outside any step
BUBBLE_STEPS = 10  # the last steps, over which the bubble is averaged
LOWEST = {"steps": 1, "verify": 0, "checkpoint_every": 0, "stop_after": 1, "timeline_steps": 1}
LOSS_STEPS = 20  # the last steps, over which the final train loss is averaged


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run does beside training; none of it changes the numbers.

    Attributes
    ----------
    steps : instead of the config's `training.steps`.
    run_dir : where everything is written; by default that of the checkpoint, or runs/<start time>.
    verify : how many of the first steps are compared with one NPU.
    resume : a run directory or a checkpoint to go on from.
    checkpoint_every : steps between checkpoints; 0 writes one at the end only.
    stop_after : the step to end at, before the end of the schedule.
    timeline_steps : how many of the last steps the timelines show.
    quiet : say nothing.
    """

    steps: int | None = None
    run_dir: Path | None = None
    verify: int = 0
    resume: Path | None = None
    checkpoint_every: int = 100
    stop_after: int | None = None
    timeline_steps: int = 3
    quiet: bool = False


class Trainer:
    """Trains a GPT on all ranks of the world.

    Making one reads and checks, and communicates nothing; `run` does the work.

    Raises
    ------
    ConfigError : the options contradict each other, the checkpoint is not of this config, or the
        run directory cannot be made.
    """

    def __init__(self, config: ParallelConfig, options: Options) -> None:
        _check(options)
        self.config, self.options = _with_steps(config, options.steps), options
        self.begin = resume.Begin.load(options.resume, hcom.rank(), self.config)
        steps = self.config.training.steps
        self.last_step = min(steps, options.stop_after or steps)
        self._check_begin()
        self.run_dir = self._own_run_dir()

    def run(self) -> Record:
        """Train; every rank of the world calls it.

        Returns
        -------
        The summary, the last record of `metrics.jsonl`; on ranks other than 0 it is empty.

        Raises
        ------
        VerifyError : the losses or gradients are not those of one NPU.
        HcomError : the loss is not a number any more.
        """
        self._prepare()
        with self.report.progress(self.begin.step, self.last_step):
            for step in range(self.begin.step + 1, self.last_step + 1):
                self._step(step)
        return self._conclude()

    def _check_begin(self) -> None:
        step, path = self.begin.step, self.options.resume
        if step and self.options.verify:
            raise ConfigError(
                f"--verify {self.options.verify}: cannot compare the first steps of a run that "
                f"goes on after step {step}; leave out --verify or --resume"
            )
        if step >= self.last_step:
            raise ConfigError(
                f"--resume {path}: it is of step {step} and this run ends with step "
                f"{self.last_step}; give it more steps"
            )

    def _prepare(self) -> None:
        config, options = self.config, self.options
        self.world = world().group
        self.mesh = mesh(config.layout)
        self.run_dir = Path(broadcast_bytes(str(self.run_dir).encode(), self.world).decode())
        self.report = Report(self.world.rank, quiet=options.quiet)
        self.training = Training(config, self.mesh)
        self.begin.restore(self.training)
        path = self.run_dir / NAME if self.world.rank == 0 else None
        self.metrics = Metrics(path, self.begin.records)
        self._greet()
        steps = min(options.verify, self.last_step)
        self.verification = Verification(config, steps, self.world)

    def _own_run_dir(self) -> Path:
        """Name the run directory; rank 0's name is the one that counts, and it makes it."""
        default = self.begin.run_dir or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S")
        run_dir = self.options.run_dir or default
        if hcom.rank() == 0:
            begun = self.begin.run_dir and self.begin.run_dir.resolve()
            if run_dir.resolve() != begun and (run_dir / NAME).exists():
                raise ConfigError(
                    f"--run-dir {run_dir}: holds the files of another run; name a new directory, "
                    f"or go on from it with --resume {run_dir}"
                )
            try:
                run_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"--run-dir {run_dir}: {error.strerror}") from None
        return run_dir

    def _greet(self) -> None:
        places = self.mesh
        self.report.say(
            f"NPUs {self.world.rank_size} = pipeline stages {places.pp.rank_size} x replicas "
            f"{places.dp.rank_size} x sequence ranks {places.sp.rank_size}; profile "
            f"{current().profile.name}; {self.training.parameters.count():,} parameters on NPU 0"
        )
        if self.options.verify:
            self.report.say(f"first {self.options.verify} steps on one NPU, to compare with")

    def _step(self, step: int) -> None:
        device = current()
        device.trace.step = step
        wall, clock = time.perf_counter(), device.clock()
        result = self.training.step(step)
        wall, clock = time.perf_counter() - wall, device.clock() - clock
        device.trace.step = OUTSIDE
        self._record(step, result, wall, clock)
        self.verification.compare(step, result, self.training)
        self._refuse_divergence(step, result.loss)
        every = self.options.checkpoint_every
        if step == self.last_step or (every and step % every == 0):
            root = self.run_dir / "checkpoints"
            self.checkpoint = resume.save(root, step, self.training, self.world)

    def _record(self, step: int, result: StepResult, wall: float, clock: float) -> None:
        training = self.config.training
        record = {
            "event": "step",
            "step": step,
            "loss": result.loss,
            "gradient_norm": result.gradient_norm,
            "learning_rate": learning_rate(training, step),
            "tokens_per_s": training.batch * self.config.model.sequence / wall,
            "wall_s": wall,
            "device_s": clock,
        }
        self.metrics.write(record)
        self.report.step(record)

    def _refuse_divergence(self, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            rate = self.config.training.learning_rate
            raise HcomError(
                f"the loss of step {step} is {loss}, a finite number was expected; try a "
                f"training.learning_rate below {rate:g}"
            )

    def _conclude(self) -> Record:
        """Score the model, gather what the ranks recorded, and tell the user."""
        val_loss = self.training.evaluate(corpus()[1])
        steps = max(BUBBLE_STEPS, self.options.timeline_steps)
        newest = range(max(1, self.last_step - steps + 1), self.last_step + 1)
        events = gather_events(newest, self.world)
        collectives = gather_collectives(self.world)
        if self.world.rank != 0:
            return {}
        waiting = bubble.measure(events, self.config.layout, self.training.plan)
        summary = self._summary(val_loss, waiting)
        self.metrics.write(summary)
        timelines = write_timelines(self.run_dir, events, newest[-self.options.timeline_steps :])
        self.report.collectives(collectives)
        self.report.bubble(waiting, self.training.plan)
        self.report.summary(summary)
        self.report.written(
            {"metrics": self.metrics.path, **timelines, "checkpoint": self.checkpoint}
        )
        return summary

    def _summary(self, val_loss: float, waiting: bubble.Bubble) -> Record:
        return {
            "event": "summary",
            "step": self.last_step,
            "train_loss": self.metrics.mean("loss", LOSS_STEPS),
            "val_loss": val_loss,
            "bigram_entropy": bigram_entropy(*corpus()),
            "verify_loss_rel": self.verification.loss_difference,
            "verify_grad_rel": self.verification.gradient_difference,
            "tokens_per_s": self.metrics.speed(),
            "device_s_per_step": self.metrics.mean("device_s"),
            "bubble": waiting.measured,
            "bubble_formula": waiting.formula,
            "profile": current().profile.name,
            "memory_peak_bytes": current().memory.peak_bytes,
        }


def _check(options: Options) -> None:
    """Refuse numbers that mean nothing, by the name of their option."""
    for name, lowest in LOWEST.items():
        value = getattr(options, name)
        if value is not None and value < lowest:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} {value}: must be {lowest} or more")


def _with_steps(config: ParallelConfig, steps: int | None) -> ParallelConfig:
    if steps is None:
        return config
    training = config.training.model_copy(update={"steps": steps})
    return config.model_copy(update={"training": training})
