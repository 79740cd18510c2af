"""Gradients between ranks: one reduction a step, and the norm over every axis.

Each rank's gradients are of its own tokens' losses, already divided by the step's token count over
all ranks (the loss's backward does that), so a sum over the ranks that hold the same parameters is
the gradient of the mean loss: no average, and no dependence on how tokens were shared out.
"""

import math

import numpy as np

import ops
from parallel.group import Group
from parallel.model import Parameters


def reduce_gradients(parameters: Parameters, group: Group) -> None:
    """Sum the flat buffer over the ranks that hold these parameters (axes dp and sp), in place."""
    if group.rank_size > 1:
        group.all_reduce(parameters.gradients, out=parameters.gradients)


def gather_sums(
    parameters: Parameters, loss_sum: float, stages: Group, slots: int
) -> tuple[float, float]:
    """Add up what each pipeline stage knows a part of: the loss, and the squares of the gradient.

    Tensors' sums of squares travel one by one and are added with a single rounding, so the norm
    does not depend on where the model is cut.

    Parameters
    ----------
    parameters : their gradients are those of the whole step (after `reduce_gradients`).
    loss_sum : the stage's share of the loss; 0 on all stages but the last.
    stages : the pipeline group.
    slots : number of tensors of the stage that holds most.

    Returns
    -------
    The loss, and the norm of the whole gradient.
    """
    squares = [ops.sum_of_squares(parameter.gradient) for parameter in parameters]
    if stages.rank_size > 1:
        own = np.zeros(1 + slots)
        own[0], own[1 : 1 + len(squares)] = loss_sum, squares
        shares = stages.all_gather(own).reshape(stages.rank_size, -1)
        loss_sum, squares = math.fsum(shares[:, 0]), shares[:, 1:].ravel().tolist()
    return loss_sum, math.sqrt(math.fsum(squares))
