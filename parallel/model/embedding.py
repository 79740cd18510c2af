"""The embedding: a row of a table for each token."""

import numpy as np
import numpy.typing as npt

import ops
from parallel.model.layer import Floats
from parallel.model.parameters import Parameters

Tokens = npt.NDArray[np.int64]


class Embedding:
    """The first step of the first stage; tokens have no gradient, so it has one backward half."""

    def __init__(self, parameters: Parameters, name: str, shape: tuple[int, int], std: float):
        self.table = parameters.declare(name, shape, std=std)

    def forward(self, tokens_T: Tokens) -> Floats:
        """Look the rows up."""
        return ops.embedding(tokens_T, self.table.value)

    def backward_weight(self, tokens_T: Tokens, dy_TD: Floats) -> None:
        """Add each token's gradient to its row, in the order of tokens."""
        rows = self.table.shape[0]
        ops.embedding_backward(tokens_T, dy_TD, rows=rows, out=self.table.gradient)
