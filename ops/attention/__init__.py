"""Attention: softmax(scale Q K^T + mask) V without storing the scores."""

from ops.attention.flash import flash_attention, flash_attention_backward

__all__ = ["flash_attention", "flash_attention_backward"]
