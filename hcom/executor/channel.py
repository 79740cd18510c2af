"""A channel: where a rank puts envelopes and data for one peer, as the kernels address it."""

from typing import Any

from hcom.executor import tables as t
from hcom.executor.tables import words
from hcom.jit import jit
from hcom.transport import layout


@jit(inline=True)
def channel_at(session: Any, owner: int, peer: int) -> int:
    """Give the address of the owner's channel to a peer (members of the group)."""
    windows = words(session[t.WINDOWS], session[t.RANK_SIZE])
    channel = layout.STREAM_AT + layout.STREAM_SLOTS * session[t.STREAM_BYTES]
    slots = layout.SLOTS_AT + layout.SLOTS * session[t.SLOT_BYTES]
    return int(windows[owner] + slots + peer * channel)


@jit(inline=True)
def envelope_at(channel: int, number: int) -> int:
    """Give the address of an envelope by its number; places are used again in a ring."""
    return channel + layout.ENVELOPES + number % layout.ENVELOPES_KEPT * layout.ENVELOPE_BYTES


@jit(inline=True)
def inline_at(channel: int, number: int) -> int:
    """Give the address of the bytes that go with an envelope."""
    return channel + layout.INLINE_AT + number % layout.ENVELOPES_KEPT * layout.INLINE_BYTES


@jit(inline=True)
def stream_slot_at(session: Any, channel: int, piece: int) -> int:
    """Give the address of the slot of a streamed piece by the piece's number."""
    slot: int = piece % layout.STREAM_SLOTS * session[t.STREAM_BYTES]
    return channel + layout.STREAM_AT + slot
