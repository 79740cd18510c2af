"""A GPT made of operators: layers with a forward and a backward in two halves, and no tape."""

from parallel.model.gpt import GPT, MicroBatch, StageSaved
from parallel.model.parameters import Parameter, Parameters

__all__ = ["GPT", "MicroBatch", "Parameter", "Parameters", "StageSaved"]
