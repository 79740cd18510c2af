"""The drawing of a schedule: ranks side by side, rounds downwards, an arrow a message, as SVG."""

from collections import defaultdict
from collections.abc import Iterable
from html import escape

from hcom.schedule.price import Step
from hcom.schedule.value import Round, Schedule, Transfer

LANE, ROW, MARGIN, HEAD = 84, 96, 56, 76  # pixels: between ranks, of a round, left, above
COPY, ADD, INK, FAINT = "#1f6fb4", "#d1495b", "#222", "#d8d8d8"
MOST_RUNS = 2  # of chunks named on an arrow
MOST_LABELS = 2  # a rank: a round with more messages than that shows its chunks on hover only

_STYLE = f"""
text {{ font: 12px system-ui, sans-serif; fill: {INK}; text-anchor: middle }}
.title {{ font-size: 15px; text-anchor: start }}
.small {{ font-size: 11px }}
.copy {{ stroke: {COPY}; fill: {COPY} }} .add {{ stroke: {ADD}; fill: {ADD} }}
.arrow {{ stroke-width: 1.4; fill: none }} .decides {{ stroke-width: 4 }}
"""
_TIP = '<path d="M0 0 8 3 0 6z" class="{kind}" stroke="none"/>'
_MARKER = (
    '<marker id="{kind}" viewBox="0 0 8 6" refX="7" refY="3" markerWidth="8" markerHeight="6" '
    'markerUnits="userSpaceOnUse" orient="auto">' + _TIP + "</marker>"
)


def draw(schedule: Schedule, critical_path: Iterable[Step] = ()) -> str:
    """Draw a schedule.

    Parameters
    ----------
    critical_path : of its price; these messages are drawn thick.

    Returns
    -------
    The text of an SVG file. Each arrow names its transfers when pointed at.
    """
    path = {(step.round, step.src, step.dst) for step in critical_path}
    width = 2 * MARGIN + LANE * max(schedule.rank_size - 1, 6)
    height = HEAD + ROW * max(len(schedule.rounds), 1) + 24
    size = f'width="{width}" height="{height}"'
    markers = "".join(_MARKER.format(kind=kind) for kind in ("copy", "add"))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>',
        f"<style>{_STYLE}</style><defs>{markers}</defs>",
        f'<rect {size} fill="#fff"/>',
        *_frame(schedule, width, bool(path)),
    ]
    for number, round in enumerate(schedule.rounds):
        thick = {(src, dst) for i, src, dst in path if i == number}
        parts += _round(HEAD + number * ROW, schedule.rank_size, round, thick)
    return "\n".join([*parts, "</svg>", ""])


def _x(rank: int) -> int:
    return MARGIN + LANE * rank


def _frame(schedule: Schedule, width: int, decides: bool) -> Iterable[str]:
    """Title, legend, a line a rank and a line a round."""
    yield f'<text class="title" x="16" y="24">{escape(schedule.title)}</text>'
    legend = (
        (16, "copy", "copy"),
        (90, "add", "reduce"),
        (176, "copy decides", "decides the time"),
    )
    for x, kind, what in legend if decides else legend[:2]:
        yield f'<path class="arrow {kind}" d="M{x} 42h26" marker-end="url(#{kind.split()[0]})"/>'
        yield f'<text class="small" x="{x + 32}" y="46" style="text-anchor: start">{what}</text>'
    rounds = len(schedule.rounds)
    for i in range(rounds + 1):
        y = HEAD + i * ROW
        yield f'<path d="M{MARGIN - 20} {y}H{width - 16}" stroke="{FAINT}" stroke-dasharray="2 4"/>'
        if i < rounds:
            yield f'<text class="small" x="18" y="{y + ROW // 2 + 4}">{i}</text>'
    for rank in range(schedule.rank_size):
        yield f'<path d="M{_x(rank)} {HEAD}v{ROW * rounds}" stroke="{FAINT}" stroke-width="2"/>'
        yield f'<text x="{_x(rank)}" y="{HEAD - 8}">{rank}</text>'


def _round(y: int, rank_size: int, round: Round, thick: set[tuple[int, int]]) -> Iterable[str]:
    messages: dict[tuple[int, int, bool], list[Transfer]] = defaultdict(list)
    for transfer in round:
        messages[transfer.src, transfer.dst, transfer.reduce].append(transfer)
    for (src, dst, reduce), transfers in messages.items():
        kind = "add" if reduce else "copy"
        names = " ".join(map(str, transfers))
        weight = " decides" if (src, dst) in thick else ""
        yield f"<g><title>{escape(names)}</title>"
        if src == dst:
            yield f'<circle class="{kind}" cx="{_x(src)}" cy="{y + ROW // 2}" r="4"/>'
        else:
            line = f"M{_x(src)} {y + 10}L{_x(dst)} {y + ROW - 6}"
            yield f'<path class="arrow {kind}{weight}" d="{line}" marker-end="url(#{kind})"/>'
        yield "</g>"
    if len(messages) <= MOST_LABELS * rank_size:
        for (src, dst, _), transfers in messages.items():
            yield from _label(src, dst, y, transfers)


def _runs(transfers: list[Transfer]) -> str:
    """Name the chunks as runs, `0-3,5`; many runs as a number, `x4`."""
    chunks = sorted(t.src_chunk + i for t in transfers for i in range(t.count))
    runs: list[list[int]] = []
    for chunk in chunks:
        if runs and chunk == runs[-1][-1] + 1:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    if len(runs) > MOST_RUNS:
        return f"x{len(chunks)}"
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _label(src: int, dst: int, y: int, transfers: list[Transfer]) -> Iterable[str]:
    """Name the chunks near the sender, where arrows of neighbours do not meet."""
    text = _runs(transfers)
    along = 0.18
    x = _x(src) + (_x(dst) - _x(src)) * along if src != dst else _x(src) + 16.0
    middle = y + 10 + (ROW - 16) * along if src != dst else y + ROW / 2
    wide = 6.5 * len(text) + 4
    place = f'x="{x - wide / 2:.1f}" y="{middle - 7:.1f}" width="{wide}" height="14"'
    yield f'<rect {place} fill="#fff"/>'
    yield f'<text class="small" x="{x:.1f}" y="{middle + 4:.1f}">{text}</text>'
