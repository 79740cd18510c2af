"""Ulysses: one exchange turns a part of the sequence into a part of the heads, another turns back.

    B  sequences      C  components that travel together (q, k, v: 3; the attention's output: 1)
    P  ranks          S  sequence length, of which a rank holds the contiguous s = S / P
    N  heads, of which a rank computes the contiguous n = N / P        H  head size

      sequence_to_heads:  x (B, s, C, N, H)  ->  (C, B, n, S, H)
      heads_to_sequence:  (C, B, n, S, H)    ->  x (B, s, C, N, H)

Token i, head j is on rank i // s before the first and on rank j // n after it. Each is a pure
permutation and the inverse of the other, hence also the other's backward. A rank sends (P - 1) / P
of its B s C N H elements (Jacobs et al. 2023, DeepSpeed-Ulysses, section 3).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hcom.device import current
from ops.seam import Call
from parallel.group import Group

Floats = npt.NDArray[np.float32]


def sequence_to_heads(x_BsCNH: Floats, group: Group) -> Floats:
    """Give every rank the whole sequence for its share of the heads.

    Parameters
    ----------
    x_BsCNH : (B, S / P, C, N, H), this rank's part of the sequence for all heads.
    group : the P ranks that share the sequence, in the order of its parts.

    Returns
    -------
    (C, B, N / P, S, H): the component axis first, so each component is contiguous.

    Raises
    ------
    ValueError : N is not divisible by P.
    """
    ranks = group.rank_size
    batch, part, components, heads, head_size = x_BsCNH.shape
    if heads % ranks:
        raise ValueError(f"heads ({heads}) must be divisible by the sequence ranks ({ranks})")
    share = heads // ranks
    message = _empty(ranks, components, batch, share, part, head_size)
    blocks = x_BsCNH.reshape(batch, part, components, ranks, share, head_size)
    _copy(message, blocks.transpose(3, 2, 0, 4, 1, 5))
    if ranks == 1:
        whole_CBnSH: Floats = message[0]
        return whole_CBnSH
    parts = group.all_to_all(message)  # block r: rank r's part of the sequence
    y = _empty(components, batch, share, ranks, part, head_size)
    _copy(y, parts.transpose(1, 2, 3, 0, 4, 5))
    heads_CBnSH: Floats = y.reshape(components, batch, share, ranks * part, head_size)
    return heads_CBnSH


def heads_to_sequence(components: Sequence[Floats], group: Group) -> Floats:
    """Give every rank its part of the sequence back, with all heads.

    Parameters
    ----------
    components : C arrays (B, N / P, S, H), this rank's heads for the whole sequence.
    group : the P ranks that share the sequence.

    Returns
    -------
    (B, S / P, C, N, H)
    """
    ranks, count = group.rank_size, len(components)
    batch, share, sequence, head_size = components[0].shape
    part = sequence // ranks
    message = _empty(ranks, count, batch, share, part, head_size)
    for index, component in enumerate(components):
        blocks = component.reshape(batch, share, ranks, part, head_size)
        _copy(message[:, index], blocks.transpose(2, 0, 1, 3, 4))
    shares = group.all_to_all(message) if ranks > 1 else message  # block r: rank r's heads
    x = _empty(batch, part, count, ranks, share, head_size)
    _copy(x, shares.transpose(2, 4, 1, 0, 3, 5))
    return x.reshape(batch, part, count, ranks * share, head_size)


def _empty(*shape: int) -> Floats:
    array: Floats = current().memory.empty(shape, np.float32)
    return array


def _copy(target: Floats, source: Floats) -> None:
    """Copy with another order of axes: a kernel of the device like any other."""
    call = Call("permute")
    np.copyto(target, source)
    call.done(flops=0, nbytes=2 * target.nbytes)
