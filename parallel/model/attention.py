"""The attention layer: causal, with rotary positions, over a sequence that Ulysses ranks share.

T  tokens of this rank (B sequences x S / P positions)      D  features = N heads x head size H
n  heads that this rank attends for, over all S positions
"""

from typing import NamedTuple

import numpy as np

import ops
from parallel.group import Group
from parallel.model.layer import Floats, Layer
from parallel.sequence.ulysses import heads_to_sequence, sequence_to_heads


class AttentionSaved(NamedTuple):
    """Queries and keys after rotation, values and the output, (B, n, S, H); its log-sum-exp."""

    q: Floats
    k: Floats
    v: Floats
    o: Floats
    lse: Floats


class Attention(Layer):
    """From q, k and v side by side, (T, 3 D), to the heads' outputs side by side, (T, D).

    Positions are those of the whole sequence: rotation comes after the exchange.
    """

    def __init__(self, heads: int, head_size: int, sequence: int, group: Group) -> None:
        self.heads, self.head_size, self.group = heads, head_size, group
        self.part = sequence // group.rank_size
        self.cos, self.sin = ops.rotary_table(np.arange(sequence), head_size)

    def forward(self, qkv_TF: Floats) -> tuple[Floats, AttentionSaved]:
        """Exchange, rotate, attend, exchange back."""
        split = (-1, self.part, 3, self.heads, self.head_size)
        qkv_CBnSH = sequence_to_heads(qkv_TF.reshape(split), self.group)
        q, k = self._rotated(qkv_CBnSH[:2])
        v = qkv_CBnSH[2]
        o, lse = ops.flash_attention(q, k, v, causal=True, return_lse=True)
        y_BsCNH = heads_to_sequence([o], self.group)
        return y_BsCNH.reshape(qkv_TF.shape[0], -1), AttentionSaved(q, k, v, o, lse)

    def backward_input(self, saved: AttentionSaved, dy_TD: Floats) -> Floats:
        """Run the four steps backwards; each exchange is the other's backward."""
        split = (-1, self.part, 1, self.heads, self.head_size)
        do = sequence_to_heads(dy_TD.reshape(split), self.group)[0]
        dq, dk, dv = ops.flash_attention_backward(*saved, do, causal=True)
        dq = ops.rotary_backward(dq, self.cos, self.sin)
        dk = ops.rotary_backward(dk, self.cos, self.sin)
        return heads_to_sequence([dq, dk, dv], self.group).reshape(dy_TD.shape[0], -1)

    def _rotated(self, qk_CBnSH: Floats) -> Floats:
        """Rotate queries and keys as one batch."""
        _, _, *head_shape = qk_CBnSH.shape
        rotated: Floats = ops.rotary(qk_CBnSH.reshape(-1, *head_shape), self.cos, self.sin)
        return rotated.reshape(qk_CBnSH.shape)
