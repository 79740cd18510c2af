"""The staircase as SVG: a row a rank, a box an action, labelled by its micro-batch."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from parallel.pipeline.plan import Kind, Plan
from parallel.pipeline.price import Price, Slot, Times, price

_COLOURS: dict[Kind, str] = {"F": "#4477aa", "B": "#cc6622", "W": "#668833"}
_WORDS: dict[Kind, str] = {"F": "forward", "B": "backward", "W": "weight gradient"}
_LIGHTER = 0.3
"""How much of a colour the last chunk of a rank loses; the first keeps all."""

_UNIT = 22.0
"""Pixels of the shortest action: room for three digits."""
_ROW, _GAP, _MARGIN, _LEFT, _HEAD = 24, 6, 16, 70, 62
"""Pixels: a row's height, the space between rows, the border, the ranks' labels, the title."""


def draw(plan: Plan, forward: Times = 1.0, backward: Times = 2.0, transfer: float = 0.0) -> str:
    """Draw a plan as an SVG document, with the times of `price`; what is grey is waiting."""
    cost = price(plan, forward, backward, transfer)
    scale = _UNIT / min(slot.end - slot.start for row in cost.slots for slot in row)
    title = escape(str(cost))
    width = 2 * _MARGIN + _LEFT + max(cost.makespan * scale, 360)
    height = _top(plan.stages) + 34
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" font-size="12">'
    )
    lines = [root, f"<title>{title}</title>", '<rect width="100%" height="100%" fill="white"/>']
    lines.append(f'<text x="{_MARGIN}" y="24" font-size="14">{title}</text>')
    lines += _legend(plan)
    for rank in range(plan.stages):
        lines += _rank(cost, rank, scale)
    return "\n".join([*lines, *_axis(cost, scale), "</svg>"])


def _legend(plan: Plan) -> Iterator[str]:
    x = float(_MARGIN + _LEFT)
    for kind, word in _WORDS.items():
        if plan.has(kind):
            yield f'<rect x="{x:g}" y="37" width="12" height="12" fill="{_COLOURS[kind]}"/>'
            label = "input gradient" if kind == "B" and plan.splits_backward else word
            yield f'<text x="{x + 17:g}" y="47">{label}</text>'
            x += 110


def _top(rank: int) -> int:
    return _HEAD + rank * (_ROW + _GAP)


def _rank(cost: Price, rank: int, scale: float) -> Iterator[str]:
    left, top = _MARGIN + _LEFT, _top(rank)
    yield f'<text x="{_MARGIN}" y="{top + 16}">stage {rank}</text>'
    yield (
        f'<rect x="{left}" y="{top}" width="{cost.makespan * scale:.2f}" height="{_ROW}" '
        'fill="#e8e8e8"/>'
    )
    for slot in cost.slots[rank]:
        yield from _box(slot, left + slot.start * scale, top, scale, cost.plan.virtual)


def _box(slot: Slot, x: float, top: int, scale: float, virtual: int) -> Iterator[str]:
    action, width = slot.action, (slot.end - slot.start) * scale
    opacity = 1 - _LIGHTER * action.chunk / max(1, virtual - 1)
    yield (
        f'<rect x="{x:.2f}" y="{top}" width="{width:.2f}" height="{_ROW}" '
        f'fill="{_COLOURS[action.kind]}" fill-opacity="{opacity:g}" stroke="white">'
        f"<title>{action}: {slot.start:g} to {slot.end:g}</title></rect>"
    )
    yield (
        f'<text x="{x + width / 2:.2f}" y="{top + 16}" text-anchor="middle" fill="white" '
        f'pointer-events="none">{action.micro_batch}</text>'
    )


def _axis(cost: Price, scale: float) -> Iterator[str]:
    """Draw a tick at every round number of time that leaves 40 pixels between two."""
    step = next(step for step in _round_steps() if step * scale >= 40)
    y = _top(cost.plan.stages)
    for tick in range(int(cost.makespan / step) + 1):
        x = _MARGIN + _LEFT + tick * step * scale
        yield f'<path d="M{x:.2f} {y - 4}v6" stroke="#666"/>'
        yield (
            f'<text x="{x:.2f}" y="{y + 16}" text-anchor="middle" fill="#444" font-size="11">'
            f"{tick * step:g}</text>"
        )


def _round_steps() -> Iterator[float]:
    """Count 1, 2, 5, 10, ... from far below any time in seconds."""
    power = 1e-12
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10
