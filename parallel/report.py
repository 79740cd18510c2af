"""What the user sees: progress while training, and where time and bytes went at the end."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from parallel.bubble import Bubble
from parallel.pipeline import Plan

Record = Mapping[str, Any]

PLAIN_LINES = 20  # lines of progress over a run, where the output is no terminal
WIDTH = 100  # columns that the table needs
HIGHEST = ("calls", "bytes", "wall_s", "device_s")


class Report:
    """Writes to the terminal on rank 0; on other ranks, and when quiet, says nothing."""

    def __init__(self, rank: int, *, quiet: bool) -> None:
        self.console = Console(quiet=quiet or rank != 0, highlight=False, soft_wrap=True)
        self.console.width = max(self.console.width, WIDTH)
        self._show = self._show_line
        self._total = 0

    def say(self, text: str) -> None:
        """Write a line."""
        self.console.print(text, markup=False)

    @contextmanager
    def progress(self, done: int, total: int) -> Iterator[None]:
        """Show a bar while steps run, or a line now and then where there is no terminal."""
        self._total = total
        if not self.console.is_terminal or self.console.quiet:
            yield
            return
        with Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=4,
        ) as bar:
            task = bar.add_task("", completed=done, total=total)
            self._show = lambda record: bar.update(
                task, completed=record["step"], description=_figures(record)
            )
            yield

    def step(self, record: Record) -> None:
        """Show a step."""
        self._show(record)

    def collectives(self, rows: Iterable[Record]) -> None:
        """Show what went between ranks; figures of the rank that has most."""
        table = Table(title="collectives (the rank with most)", title_justify="left")
        for heading in ("axis", "collective", "algorithm"):
            table.add_column(heading)
        for heading in ("calls", "bytes", "wall ms", "device us"):
            table.add_column(heading, justify="right")
        for row in rows:
            figures = f"{row['calls']:,}", f"{row['bytes']:,}"
            times = f"{1e3 * row['wall_s']:,.1f}", f"{1e6 * row['device_s']:,.1f}"
            table.add_row(row["group"], row["collective"], row["algorithm"], *figures, *times)
        if table.rows:
            self.console.print(table)

    def bubble(self, bubble: Bubble, plan: Plan) -> None:
        """Show the bubble beside the formula."""
        self.say(
            f"pipeline bubble     {bubble.measured:.1%} of device time; (p-1)/(m+p-1) = "
            f"{bubble.formula:.1%} for p={plan.stages}, m={plan.micro_batches}"
        )
        if plan.stages > 1:
            self.say(f"                    {bubble.explain()}")

    def summary(self, summary: Record) -> None:
        """Show the losses, the proof and the speed."""
        self.say(
            f"loss, nats a byte   train {summary['train_loss']:.4f}, validation "
            f"{summary['val_loss']:.4f}; add-one bigram model {summary['bigram_entropy']:.4f}"
        )
        if summary["verify_loss_rel"] is not None:
            self.say(
                f"beside one NPU      loss {summary['verify_loss_rel']:.1e}, gradients "
                f"{summary['verify_grad_rel']:.1e} (largest relative differences)"
            )
        self.say(
            f"speed               {summary['tokens_per_s']:,.0f} tokens/s on this machine, "
            f"{1e3 * summary['device_s_per_step']:.3f} ms a step in device time "
            f"({summary['profile']})"
        )

    def written(self, paths: Mapping[str, Any]) -> None:
        """Show where things are."""
        for name, path in paths.items():
            self.say(f"{name:<19} {path}")

    def _show_line(self, record: Record) -> None:
        every = max(1, self._total // PLAIN_LINES)
        if record["step"] % every == 0 or record["step"] in (1, self._total):
            self.say(f"step {record['step']:>5}/{self._total}  {_figures(record)}")


def highest(rows: Iterable[Record]) -> list[dict[str, Any]]:
    """Join the ranks' statistics: for each axis, collective and algorithm the largest figures."""
    joined: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["group"], row["collective"], row["algorithm"]
        known = joined.setdefault(key, dict(row))
        known.update({name: max(known[name], row[name]) for name in HIGHEST})
    return [joined[key] for key in sorted(joined)]


def _figures(record: Record) -> str:
    return (
        f"loss {record['loss']:.4f}  {record['tokens_per_s']:>8,.0f} tokens/s  "
        f"device {1e3 * record['device_s']:.3f} ms"
    )
