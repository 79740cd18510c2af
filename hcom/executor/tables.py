"""Word positions in the executor's tables, and the views that kernels read them through.

A *session* is a communicator's state in one process; a *program* is one bound operation. Both are
arrays of int64 words whose address is all that a kernel call passes.
"""

from typing import Any

import numba
import numpy as np

from hcom.jit import jit
from hcom.transport.atomics import pointer

# Words of a session
(
    HEADER,  # address of this process's header
    WINDOW,  # address of this process's window
    RANK,  # this rank in the group
    RANK_SIZE,
    SPIN_LIMIT,
    SLOT_BYTES,
    STREAM_BYTES,  # bytes of one stream slot of a channel
    HEADERS,  # address of int64[rank_size]: the members' headers
    WINDOWS,  # address of int64[rank_size]: the members' windows
    PIDS,  # address of int64[rank_size]
    READERS,  # address of int64[SLOTS, rank_size]: the `done` that frees a slot from each reader
    HEADS,  # address of int64[rank_size]: envelopes below this number are over, per sender
    STREAMING,  # address of int64[rank_size]: 1 while a message of that sender is streamed
    STEP,  # steps of all operations before this one
    SEQUENCE,  # number of the running operation, from 1
    CURSOR,  # event at which a run goes on
    ODD_RANK,  # whose descriptor differs
    CLOCK,  # address of a float64: the device clock of the communication stream, s
    ARENA_BYTES,  # size of this process's arena; 0 where peers cannot read arrays in it
    CROSS_MEMORY,  # 1 where process_vm_readv works between the members
    BROKEN,  # 1 once an operation has failed or was left
    QUEUE,  # address of two words, equal unless asynchronous operations are under way; or 0
    POLLS,  # 1 while a wait returns at once instead of waiting
    SESSION_WORDS,
) = range(24)

# Words of a program
(
    ROUNDS,
    SLICES,
    LANES,  # slices under way at once: 1, or 2 with an even number of slices
    ROUND_TABLE,
    STAGE_TABLE,
    WRITE_TABLE,
    OPERAND_TABLE,
    READER_TABLE,
    SENDER_TABLE,
    GUARD_TABLE,  # peers and rounds: who must have read what a round writes over
    FINAL_TABLE,  # the same: who must have read before the call returns
    FINALS,
    COPY_TABLE,
    COPIES,
    PEER_TABLE,  # whom this rank exchanges data with: whose descriptors it compares
    PEERS,
    COST_TABLE,  # float64[rounds, 2]: how long this rank's sends take, how long it reduces, s
    ARRIVAL_TABLE,  # float64[senders]: from the sender's start of the round to its arrival, s
    FOLD,  # address of the fold loop
    ITEM,  # bytes of one element
    DIGEST,
    TEXT_AT,
    TEXT_SIZE,
    BASES,  # address of int64[3]: where input, output and scratch start
    SOURCES,  # address of int64[most operands of one fold]
    SHORT,  # 1 where all data goes with the descriptors
    DIRECT,  # 1 where peers may read registered arrays directly
    PAST_CACHES,  # 1 where untouched positions are copied past the caches
    OWN_ARRAYS,  # address of int64[2]: 1 where this rank's input, output is read directly
    PEER_ARRAYS,  # address of int64[rank_size, 2]: where those of peers start here, or 0
    PROGRAM_WORDS,
) = range(31)

# Where a position lives. The last is the slot of the round after, as a target only.
INPUT, OUTPUT, SCRATCH, NEXT_SLOT = range(4)

# Columns of a message: one send or receive of a batch.
(
    M_SENDS,  # 1 for a send, 0 for a receive
    M_PEER,
    M_TAG,
    M_BYTES,
    M_TYPE,
    M_ADDRESS,
    M_BEFORE,  # address of the state of the message that is matched before this one, or 0
    M_STATE,
    M_NUMBER,  # of its envelope
    M_MOVED,  # bytes moved through the stream slots
    M_THEIR_BYTES,  # what the other end has, where the two differ
    M_THEIR_TYPE,
    M_TIME,  # bits of a float64: a send's time on its link; the arrival of a receive, s
    MESSAGE_COLUMNS,
) = range(14)
# States of a message
NEW, MATCHED, STREAMED, OVER, UNEQUAL = range(5)

# Columns of a round: [begin, end) in the stage, write, reader, sender and guard tables; whether
# its writes put something into the slot of the next round.
STAGE_BEGIN, STAGE_END, WRITE_BEGIN, WRITE_END = range(4)
READER_BEGIN, READER_END, SENDER_BEGIN, SENDER_END = range(4, 8)
GUARD_BEGIN, GUARD_END, FUSES, ROUND_COLUMNS = range(8, 12)

# A stage row copies one piece of a position into this rank's slot; not where all peers read it in
# the array S_ARRAY (INPUT or OUTPUT; -1: none) itself.
S_BUFFER, S_OFFSET, S_LENGTH, S_PIECE, S_SLOT, S_ARRAY, STAGE_COLUMNS = range(7)
# A write row makes one piece of a position from its operands, and its twin at W_TWIN (or -1) in
# the slot of the next round, unless peers read it in the array W_ARRAY; W_STREAMED: past the
# caches.
W_BUFFER, W_OFFSET, W_LENGTH, W_PIECE, W_BEGIN, W_END = range(6)
W_TWIN, W_ARRAY, W_STREAMED, WRITE_COLUMNS = range(6, 10)
# An operand is in a member's slot (O_PEER >= 0) or in a buffer of this rank (O_PEER = -1). It may
# be read in the member's array O_ARRAY (or -1) at O_PLACE instead, where that is registered.
O_PEER, O_BUFFER, O_OFFSET, O_ARRAY, O_PLACE, OPERAND_COLUMNS = range(6)
# A peer whose `done` of a round is waited for.
G_PEER, G_ROUND, GUARD_COLUMNS = range(3)
# A copy row brings a position that no round touched from one buffer to another.
C_FROM, C_FROM_OFFSET, C_TO, C_TO_OFFSET, C_LENGTH, COPY_COLUMNS = range(6)


@jit(inline=True)
def words(address: int, count: int) -> Any:
    """View int64 words at an address."""
    return numba.carray(pointer(address), (count,), np.int64)


@jit(inline=True)
def rows(address: int, count: int, columns: int) -> Any:
    """View an int64 table at an address."""
    return numba.carray(pointer(address), (count, columns), np.int64)


@jit(inline=True)
def floats(address: int, count: int) -> Any:
    """View float64 numbers at an address."""
    return numba.carray(pointer(address), (count,), np.float64)


@jit(inline=True)
def float_rows(address: int, count: int, columns: int) -> Any:
    """View a float64 table at an address."""
    return numba.carray(pointer(address), (count, columns), np.float64)
