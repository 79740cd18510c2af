"""Element by element sums: residual connections and their gradients."""

import numpy as np

from ops.seam import Array, Call


def add(x: Array, y: Array) -> Array:
    """Add two arrays of one shape.

    Parameters
    ----------
    x, y : float32 arrays of the same shape, any number of dimensions.

    Returns
    -------
    x + y, float32.
    """
    call = Call("add")
    shape = call.check("x", x, (None,) * np.ndim(x))
    call.check("y", y, shape)
    z = call.empty(shape)
    np.add(x, y, out=z)
    call.done(flops=z.size, nbytes=12 * z.size)
    return z
