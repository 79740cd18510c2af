"""Operators of a transformer in numba, forward and backward, with their cost on the device."""

from ops.activation import gelu, gelu_backward, swiglu, swiglu_backward
from ops.attention import flash_attention, flash_attention_backward
from ops.elementwise import add
from ops.embedding import embedding, embedding_backward
from ops.linear import bias_backward, linear, linear_backward_input, linear_backward_weight
from ops.loss import cross_entropy, cross_entropy_backward
from ops.norm import rms_norm, rms_norm_backward_input, rms_norm_backward_weight
from ops.optimizer import adamw, sum_of_squares
from ops.rotary import rotary, rotary_backward, rotary_table

__all__ = [
    "adamw",
    "add",
    "bias_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "embedding",
    "embedding_backward",
    "flash_attention",
    "flash_attention_backward",
    "gelu",
    "gelu_backward",
    "linear",
    "linear_backward_input",
    "linear_backward_weight",
    "rms_norm",
    "rms_norm_backward_input",
    "rms_norm_backward_weight",
    "rotary",
    "rotary_backward",
    "rotary_table",
    "sum_of_squares",
    "swiglu",
    "swiglu_backward",
]
