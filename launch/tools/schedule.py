"""`hcom-tool schedule`: look at a collective's schedule, check it, price it, draw it."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hcom.algorithms import algorithms, build
from hcom.device import load_profile
from hcom.schedule import Price, Schedule, ScheduleError
from hcom.schedule import check as check_schedule
from hcom.schedule import draw as draw_schedule
from hcom.schedule import parse as parse_schedule
from hcom.schedule import price as price_schedule
from hcom.topology import Topology, from_profile

app = typer.Typer(
    help="Look at a collective's schedule, check it, price it, draw it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FINDING, USAGE = 1, 2  # exit statuses
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

Collective = Annotated[str, typer.Argument(help="all_reduce, reduce_scatter, all_gather, ...")]
Algorithm = Annotated[
    str,
    typer.Option("--algorithm", "-a", help="ring, 'mesh(one_shot=True)', or file:PATH (text form)"),
]
Algorithms = Annotated[
    list[str],
    typer.Option(
        "--algorithm",
        "-a",
        help="ring, 'mesh(one_shot=True)', or file:PATH; once for each; by default every algorithm",
    ),
]
EVERY: list[str] = []
Ranks = Annotated[int, typer.Option("--ranks", "-n", help="number of ranks")]
Root = Annotated[int, typer.Option(help="the root's rank, where the collective has one")]
Bytes = Annotated[
    str, typer.Option("--bytes", help="the full buffer (blocks: all of them), like 4096, 64K, 1M")
]
Profile = Annotated[str, typer.Option(help="device profile: a name or a path")]
Servers = Annotated[int, typer.Option(help="equal servers; 0: fill one after another")]


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what is wrong with a request into one line and an exit status."""
    try:
        yield
    except ScheduleError as error:
        _stop(str(error), FINDING)
    except (ValueError, TypeError, OSError) as error:
        _stop(str(error), USAGE)


def _stop(text: str, status: int) -> None:
    typer.echo(f"hcom-tool schedule: {text}", err=True)
    raise typer.Exit(status)


def _schedules(collective: str, asked: Sequence[str], ranks: int, root: int) -> Iterator[Schedule]:
    """Make the schedules that are asked for, or those of every algorithm."""
    # Where there is no such collective, building says so.
    for algorithm in asked or algorithms(collective) or ["ring"]:
        yield _schedule(collective, algorithm, ranks, root)


def _schedule(collective: str, algorithm: str, ranks: int, root: int) -> Schedule:
    """Make one schedule; a file's is checked."""
    if not algorithm.startswith("file:"):
        return build(collective, algorithm, ranks, root)
    schedule = parse_schedule(Path(algorithm.removeprefix("file:")).read_text(encoding="utf-8"))
    if schedule.collective != collective:
        raise ValueError(f"{algorithm} has {schedule.collective}, not {collective}")
    check_schedule(schedule)
    return schedule


def _topology(profile: str, ranks: int, servers: int) -> Topology:
    loaded = load_profile(profile)
    size = loaded.npus_per_server
    if servers < 0 or (servers and ranks % servers):
        raise ValueError(f"--servers divides the {ranks} ranks, {servers} does not")
    if servers:
        return from_profile(loaded, [ranks // servers] * servers)
    return from_profile(loaded, [min(size, ranks - first) for first in range(0, ranks, size)])


def _nbytes(text: str) -> int:
    number, unit = text.rstrip("KMG"), text[len(text.rstrip("KMG")) :]
    if not number.isdecimal() or unit not in UNITS:
        raise ValueError(f"--bytes is a number with K, M or G behind it or nothing, not {text!r}")
    return int(number) * UNITS[unit]


def _size(nbytes: float) -> str:
    unit = max((u for u in UNITS if nbytes >= UNITS[u]), key=UNITS.__getitem__, default="")
    return f"{nbytes / UNITS[unit]:.4g} {unit}{'iB' if unit else 'B'}"


@app.command()
def show(collective: Collective, algorithm: Algorithm, ranks: Ranks = 4, root: Root = 0) -> None:
    """Print the rounds; into a file or pipe in the text form that file: reads."""
    with _one_line_errors():
        schedule = _schedule(collective, algorithm, ranks, root)
    if not sys.stdout.isatty():
        typer.echo(str(schedule))
        return
    table = Table("round", "transfers (cCHUNK:SRC>DST, +> reduces)", title=schedule.title)
    for number, round in enumerate(schedule.rounds):
        table.add_row(str(number), "  ".join(map(str, round)))
    Console().print(table)


@app.command()
def check(
    collective: Collective, algorithm: Algorithms = EVERY, ranks: Ranks = 4, root: Root = 0
) -> None:
    """Replay on symbols; exit status 1 and one line where a schedule is wrong."""
    with _one_line_errors():
        for schedule in _schedules(collective, algorithm, ranks, root):
            check_schedule(schedule)
            typer.echo(f"{schedule.title}: right, {len(schedule.rounds)} rounds")


@app.command()
def price(
    collective: Collective,
    algorithm: Algorithms = EVERY,
    ranks: Ranks = 4,
    root: Root = 0,
    nbytes: Bytes = "1M",
    profile: Profile = "ascend910b",
    servers: Servers = 0,
    as_json: Annotated[bool, typer.Option("--json", help="a record a line, for machines")] = False,
) -> None:
    """Say what schedules cost on a topology: time, bytes by link class, cheapest first."""
    with _one_line_errors():
        n = _nbytes(nbytes)
        made = list(_schedules(collective, algorithm, ranks, root))
        topology = _topology(profile, made[0].rank_size, servers)
        priced = [(schedule, price_schedule(schedule, topology, n)) for schedule in made]
    priced.sort(key=lambda pair: pair[1].time)
    if as_json:
        for schedule, cost in priced:
            typer.echo(json.dumps(_record(schedule, cost, n)))
        return
    Console().print(_table(priced, collective, topology, n))


def _record(schedule: Schedule, cost: Price, nbytes: int) -> dict[str, object]:
    return {
        "collective": schedule.collective,
        "algorithm": schedule.name,
        "ranks": schedule.rank_size,
        "bytes": nbytes,
        "rounds": len(schedule.rounds),
        "time_s": cost.time,
        "bytes_per_link": cost.bytes_per_link,
        "busiest_rank_bytes": int(cost.rank_bytes.max()),
        "critical_path": [step._asdict() for step in cost.critical_path],
    }


def _table(
    priced: list[tuple[Schedule, Price]], collective: str, topology: Topology, nbytes: int
) -> Table:
    servers = len(set(topology.server_of.tolist()))
    title = f"{collective} of {_size(nbytes)} on {topology.rank_size} ranks in {servers} server(s)"
    table = Table("algorithm", title=title)
    links = list(priced[0][1].bytes_per_link)
    for column in ("rounds", "us", *links, "busiest rank"):
        table.add_column(column, justify="right")
    for schedule, cost in priced:
        moved = [_size(cost.bytes_per_link[name]) for name in links]
        busiest = _size(int(cost.rank_bytes.max()))
        rounds = str(len(schedule.rounds))
        table.add_row(schedule.name, rounds, f"{cost.time * 1e6:.1f}", *moved, busiest)
    return table


@app.command()
def draw(
    collective: Collective,
    algorithm: Algorithm,
    ranks: Ranks = 4,
    root: Root = 0,
    nbytes: Bytes = "1M",
    profile: Profile = "ascend910b",
    servers: Servers = 0,
    output: Annotated[
        str, typer.Option("--output", "-o", help="an SVG file; - is standard output")
    ] = "-",
) -> None:
    """Draw the rounds as SVG; the messages that decide the time are thick."""
    with _one_line_errors():
        schedule = _schedule(collective, algorithm, ranks, root)
        topology = _topology(profile, schedule.rank_size, servers)
        cost = price_schedule(schedule, topology, _nbytes(nbytes))
        picture = draw_schedule(schedule, cost.critical_path)
        if output == "-":
            typer.echo(picture)
        else:
            Path(output).write_text(picture, encoding="utf-8")
