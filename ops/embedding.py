"""Embedding: a row of the table for each token; its gradient sums tokens in their order.

Shapes: T tokens, V rows of the table (vocabulary), D features.
"""

import numpy as np

from hcom.jit import jit
from ops.seam import INT64, Array, Call, Tokens


def embedding(tokens_T: Tokens, table_VD: Array) -> Array:
    """Look up a row for each token.

    Parameters
    ----------
    tokens_T : (T,) int64 in [0, V).
    table_VD : (V, D) float32.

    Returns
    -------
    (T, D) float32.

    Raises
    ------
    TypeError, ValueError : wrong type or shape, or a token outside the table.
    """
    call = Call("embedding")
    (tokens,) = call.check("tokens_T", tokens_T, (None,), INT64)
    rows, width = call.check("table_VD", table_VD, (None, None))
    check_range(call, "tokens_T", tokens_T, rows)
    x_TD = call.empty((tokens, width))
    np.take(table_VD, tokens_T, axis=0, out=x_TD, mode="clip")  # "raise" would buffer the output
    call.done(flops=0, nbytes=8 * x_TD.size + 8 * tokens)
    return x_TD


def embedding_backward(
    tokens_T: Tokens, dx_TD: Array, *, rows: int, out: Array | None = None
) -> Array:
    """Sum the gradient of each token into its row, tokens in their order.

    Parameters
    ----------
    tokens_T : (T,) int64 in [0, rows).
    dx_TD : (T, D) float32.
    rows : V, the rows of the table.
    out : (V, D) float32 to add into; by default a new array.

    Returns
    -------
    (V, D) float32: `out`, or the new array.
    """
    call = Call("embedding_backward")
    (tokens,) = call.check("tokens_T", tokens_T, (None,), INT64)
    _, width = call.check("dx_TD", dx_TD, (tokens, None))
    check_range(call, "tokens_T", tokens_T, rows)
    dtable_VD = call.accumulator(out, (rows, width))
    _scatter_add(tokens_T, dx_TD, dtable_VD)
    call.done(flops=dx_TD.size, nbytes=12 * dx_TD.size + 8 * tokens)
    return dtable_VD


def check_range(call: Call, argument: str, values_T: Tokens, limit: int) -> None:
    """Refuse values outside [0, limit), naming the first."""
    at = _first_outside(values_T, limit)
    if at >= 0:
        call.refuse(f"{argument}[{at}] must be in [0, {limit}), but is {values_T[at]}")


@jit()
def _first_outside(values: Tokens, limit: int) -> int:
    for i in range(values.size):
        if values[i] < 0 or values[i] >= limit:
            return i
    return -1


@jit()
def _scatter_add(tokens: Tokens, dx: Array, dtable: Array) -> None:
    for t in range(tokens.size):
        source, target = dx[t], dtable[tokens[t]]
        for i in range(source.size):
            target[i] += source[i]
