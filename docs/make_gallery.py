"""Make the gallery: a page of every algorithm at 8 ranks, with its picture, steps, bytes, price.

    python docs/make_gallery.py [FOLDER]

writes gallery.md and gallery/*.svg to FOLDER (by default this one). The same source gives the same
bytes; a test compares them with the committed ones.
"""

import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from hcom.algorithms import algorithms, build, options
from hcom.device import load_profile
from hcom.schedule import COLLECTIVES, Schedule, draw, price
from hcom.topology import from_profile

RANKS = 8
PROFILE = load_profile("ascend910b")
SERVERS = {"one server": [RANKS], "two servers": [RANKS // 2] * 2}
SIZES = {"64 KiB": 1 << 16, "16 MiB": 1 << 24}
TOPOLOGIES = {name: from_profile(PROFILE, sizes) for name, sizes in SERVERS.items()}
COLUMNS = [f"{size}, {servers}" for servers in SERVERS for size in SIZES]

PROFILE_LINK = f"[{PROFILE.name}](../hcom/device/profiles/{PROFILE.name}.yaml)"

TOP = f"""\
<!-- Made by `make gallery` (docs/make_gallery.py): change that, not this. -->
# Gallery

Every algorithm of [hcom/algorithms](../hcom/algorithms) for every collective, at {RANKS} ranks;
rooted collectives have root 0. Each file there says where its algorithm comes from.

- *Steps* are rounds of the schedule.
- *Busiest rank* is what the rank that sends most sends, in units of n: the full buffer, with blocks
  all of them (for all_to_all what one rank has for all others and itself).
- *Prices* are microseconds of device time for n of {" and ".join(SIZES)} on the
  {PROFILE_LINK} profile, all ranks
  entering at once: {RANKS} NPUs in one server, or in two servers of {RANKS // 2}. The cheapest of a
  column is bold.
- Groups of `hierarchical` and `pipeline` have two ranks by default, where a server is not known.
- *Pictures* have a line for each rank and go down by rounds. Blue copies, red reduces; numbers
  name chunks; a dot is a move inside a rank. Thick arrows decide the time at
  {list(SIZES)[-1]} in one server.

A picture of any other size, root or option: `hcom-tool schedule draw all_reduce -a ring -n 5 -o
ring.svg`. An algorithm of your own: [write_your_own_algorithm.md](write_your_own_algorithm.md).
"""

MEANING = {
    "all_reduce": "Every rank gets the sum of all ranks' buffers.",
    "reduce_scatter": "Rank r gets block r of the sum of all ranks' buffers.",
    "all_gather": "Every rank gets all ranks' blocks.",
    "broadcast": "Every rank gets the root's buffer.",
    "reduce": "The root gets the sum of all ranks' buffers.",
    "scatter": "Rank r gets block r of the root's buffer.",
    "gather": "The root gets all ranks' blocks.",
    "all_to_all": "Rank r gets block r of every rank's buffer.",
}


class Entry(NamedTuple):
    """One algorithm of one collective: what its row and its picture show."""

    schedule: Schedule
    busiest: Fraction  # of n
    prices: list[float]  # s, as COLUMNS
    picture: str  # SVG

    @property
    def file(self) -> str:
        """Name of the picture's file."""
        form = re.sub(r"\W+", "-", self.schedule.name.replace("=True", "")).rstrip("-")
        return f"{self.schedule.collective}-{form}.svg"


def forms(collective: str) -> Iterator[str]:
    """Name a collective's algorithms; where an option makes another picture, that form as well."""
    for name in algorithms(collective):
        yield name
        known = options(collective, name)
        yield from (f"{name}({option}=True)" for option in known if known[option] is False)
        if "intra_group_size" in known:
            yield f"{name}(intra_group_size={RANKS // 2})"


def entry(collective: str, form: str) -> Entry:
    """Build, price and draw one algorithm."""
    schedule = build(collective, form, RANKS)
    costs = [price(schedule, topo, n) for topo in TOPOLOGIES.values() for n in SIZES.values()]
    large = costs[len(SIZES) - 1]
    busiest = Fraction(int(large.rank_bytes.max()), list(SIZES.values())[-1])
    picture = draw(schedule, large.critical_path)
    return Entry(schedule, busiest, [cost.time for cost in costs], picture)


def section(collective: str, entries: list[Entry]) -> str:
    """Write one collective's table."""
    cheapest = [min(times) for times in zip(*(e.prices for e in entries), strict=True)]
    head = ["algorithm", "steps", "busiest rank", *COLUMNS, "picture"]
    rule = [":--", *["--:"] * (len(head) - 2), ":-:"]
    rows = [head, rule, *(row(e, cheapest) for e in entries)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"\n## {collective}\n\n{MEANING[collective]}\n\n{table}\n"


def row(entry: Entry, cheapest: list[float]) -> list[str]:
    """Write the cells of one algorithm."""
    name, file = entry.schedule.name, f"gallery/{entry.file}"
    share = "n" if entry.busiest == 1 else f"{entry.busiest} n"
    times = [
        f"**{time * 1e6:.1f}**" if f"{time:.4e}" == f"{least:.4e}" else f"{time * 1e6:.1f}"
        for time, least in zip(entry.prices, cheapest, strict=True)
    ]
    alt = f"{name} {entry.schedule.collective}"
    picture = f'<a href="{file}"><img src="{file}" alt="{alt}" width="200"></a>'
    return [name, str(len(entry.schedule.rounds)), share, *times, picture]


def main(folder: Path) -> None:
    """Write the page and the pictures, and remove pictures of what is no longer in the table."""
    made = {c: [entry(c, form) for form in forms(c)] for c in COLLECTIVES}
    sections = [section(collective, entries) for collective, entries in made.items()]
    (folder / "gallery.md").write_text(TOP + "".join(sections), encoding="utf-8")
    pictures = folder / "gallery"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    for e in (e for entries in made.values() for e in entries):
        (pictures / e.file).write_text(e.picture, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
