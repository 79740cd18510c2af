"""AdamW on the flat buffers, clipping by the norm of the whole gradient, and the learning rate."""

import math

import numpy as np

import ops
from hcom.device import current
from parallel.config import TrainingConfig
from parallel.model import Parameters
from parallel.model.layer import Floats


def learning_rate(config: TrainingConfig, step: int) -> float:
    """Rate of a step: a linear rise over `warm_up` steps, then a cosine down to the last step.

    Parameters
    ----------
    step : from 1 on; step `warm_up` has the highest rate, step `steps` the share
        `learning_rate_end` of it.
    """
    if step < config.warm_up:
        return config.learning_rate * step / config.warm_up
    decay = max(1, config.steps - config.warm_up)
    progress = min(1.0, (step - config.warm_up) / decay)
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    end = config.learning_rate_end
    return config.learning_rate * (end + (1.0 - end) * cosine)


def clip_scale(norm: float, limit: float) -> float:
    """Factor that brings a gradient of this norm to `limit`; 1 below it, or when `limit` is 0.

    A norm that is not finite makes the values not a number too, so the next loss shows it.
    """
    if limit == 0.0 or norm <= limit:
        return 1.0
    return limit / norm


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Every rank updates the parameters it holds; ranks that hold the same ones do the same sums in
    the same order, so their parameters stay equal to the bit.

    Attributes
    ----------
    m, v : first and second moments, laid out as the parameters' buffers.
    """

    def __init__(self, parameters: Parameters, config: TrainingConfig) -> None:
        self.parameters, self.config = parameters, config
        memory = current().memory
        self.m: Floats = memory.zeros(parameters.values.shape, np.float32)
        self.v: Floats = memory.zeros(parameters.values.shape, np.float32)

    def step(self, step: int, *, scale: float) -> None:
        """Update the values by `scale` times the gradients; gains are not decayed.

        Parameters
        ----------
        step : from 1 on; decides the learning rate and the moments' bias correction.
        scale : factor on the gradients, from `clip_scale`.
        """
        border = self.parameters.decayed
        self._update(slice(0, border), step, scale, self.config.weight_decay)
        self._update(slice(border, None), step, scale, 0.0)

    def _update(self, part: slice, step: int, scale: float, weight_decay: float) -> None:
        parameters, config = self.parameters, self.config
        if parameters.values[part].size == 0:
            return
        ops.adamw(
            parameters.values[part],
            parameters.gradients[part],
            self.m[part],
            self.v[part],
            step=step,
            learning_rate=learning_rate(config, step),
            beta1=config.beta1,
            beta2=config.beta2,
            epsilon=config.epsilon,
            weight_decay=weight_decay,
            scale=scale,
        )
