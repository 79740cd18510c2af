"""Where things stand in an arena: byte offsets that Python and the kernels share.

An arena starts with one process header; communicators put a window each behind it. Words that
different ranks write stand on cache lines of their own.

    process header          window of one communicator
    0    pid                0     staged: steps whose data stand in my slots
    64   doorbell (int32)   64    done: steps whose slots I have read
    128  sleepers           128   fault (kind, sequence, odd rank, finder)
    192  state, 256 turns   192   clocks of the last steps (float64 s)
    320  claim of a report  512   descriptors of the last operations
    512  what I wait for    40960 slots, then one channel a peer
    2048 what I found wrong
"""

LINE = 64
PAGE = 4096

# Process header
PID = 0
DOORBELL = 64  # futex word: rung when something a sleeper may wait for has come
SLEEPERS = 128  # threads of this process that sleep, or are about to
STATE = 192  # RUNNING, WAITING or ENDED
TURNS = 256  # grows with every wait that ended: who stands still has an equal figure twice
LOOKS = 384  # grows each time a wait has looked and found nothing: who is stopped does not look
CLAIM = 320  # on rank 0: taken once, by the first rank that reports a failure
WAITING_FOR = 512
WAITING_FOR_BYTES = 1024
FINDING = 2048
FINDING_BYTES = 2048
HEADER_BYTES = PAGE

RUNNING, WAITING, ENDED = 0, 1, 2

# Window of a communicator
STAGED = 0
DONE = 64
FAULT = 128  # kind, sequence, odd rank, finder: four words
CLOCKS = 192
CLOCKS_KEPT = 8
DESCRIPTORS = 512
DESCRIPTORS_KEPT = 8
DESCRIPTOR_BYTES = 4672
SLOTS_AT = 40960
SLOTS = 4

# Fields of a descriptor
SEQUENCE = 0
DIGEST = 8
TEXT_BYTES = 16
INPUT_AT = 24  # where the caller's arrays start in the arena; 0 where they do not stand there
OUTPUT_AT = 32
CLOCK = 40  # device clock at the start, float64 s; with the data for short calls
SHORT_DATA = 48  # what a short call sends: with the fields above in one line if it can
SHORT_BYTES = 4096
TEXT = 4160
TEXT_ROOM = DESCRIPTOR_BYTES - TEXT

# Channel from the window's owner to one peer: envelopes, inline data, then two stream slots.
POSTED = 0  # envelopes ever posted (owner writes)
FILLED = 64  # pieces the owner has put into the stream slots, in all
DRAINED = 128  # pieces the peer has taken from there (peer writes)
ENVELOPES = 256
ENVELOPES_KEPT = 256
ENVELOPE_BYTES = 64
INLINE_AT = ENVELOPES + ENVELOPES_KEPT * ENVELOPE_BYTES
INLINE_BYTES = 4096
STREAM_AT = INLINE_AT + ENVELOPES_KEPT * INLINE_BYTES
STREAM_SLOTS = 2

# Fields of an envelope
E_STATE = 0
E_TAG = 8
E_BYTES = 16
E_TYPE = 24
E_ADDRESS = 32
E_ARRIVAL = 40  # device clock at which the message arrives, float64 s
E_NUMBER = 48

# States of an envelope. The owner offers and frees it, the peer does the rest: takes it for one of
# its receives, asks for the data to be streamed, ends or refuses it.
FREE, OFFERED, TAKEN, STREAMS, COMPLETE, REFUSED = range(6)

# Kinds of fault
NO_FAULT, MISMATCH, LOST, TIMED_OUT = range(4)


def channel_bytes(stream_slot: int) -> int:
    """Size of one channel whose stream slots hold `stream_slot` bytes each."""
    return STREAM_AT + STREAM_SLOTS * stream_slot


def channel_at(peer: int, slot: int, stream_slot: int) -> int:
    """Offset in the owner's window of its channel to `peer`."""
    return SLOTS_AT + SLOTS * slot + peer * channel_bytes(stream_slot)


def window_bytes(rank_size: int, slot: int, stream_slot: int) -> int:
    """Size of a communicator's window with slots of `slot` bytes."""
    return channel_at(rank_size, slot, stream_slot)
