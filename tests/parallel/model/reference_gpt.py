"""The GPT of the tests: plain float64 numpy on one NPU, written from the model's description.

Gradients come from the complex step: f(x + ih) has f'(x) h as its imaginary part, exactly to the
last digits, with no backward code that could share an error with the one under test.
"""

import numpy as np

STEP = 1e-40


def loss(values, config, tokens_BS, targets_BS):
    """Mean cross entropy in nats; `values` maps a parameter's name to its array."""
    x = values["embedding"][tokens_BS]
    for i in range(config.layers):
        branch = rms_norm(x, values[f"layers.{i}.attention.norm"])
        q, k, v = np.split(branch @ values[f"layers.{i}.attention.qkv"], 3, axis=-1)
        x = x + attention(q, k, v, config.heads) @ values[f"layers.{i}.attention.out"]
        branch = rms_norm(x, values[f"layers.{i}.feed_forward.norm"])
        branch = branch @ values[f"layers.{i}.feed_forward.up"]
        branch = swiglu(branch) if config.feed_forward == "swiglu" else gelu(branch)
        x = x + branch @ values[f"layers.{i}.feed_forward.down"]
    logits = rms_norm(x, values["final_norm"]) @ values["head"]
    log_sum = np.log(np.exp(logits).sum(axis=-1))
    picked = np.take_along_axis(logits, targets_BS[..., None], axis=-1)[..., 0]
    return (log_sum - picked).mean()


def gradients(values, config, tokens_BS, targets_BS):
    """The gradient of every parameter, by name."""
    wide = {name: array.astype(complex) for name, array in values.items()}
    result = {}
    for name, array in wide.items():
        gradient = result[name] = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            value = array[index]
            array[index] = value + 1j * STEP
            gradient[index] = loss(wide, config, tokens_BS, targets_BS).imag / STEP
            array[index] = value
    return result


def rms_norm(x, gain):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gain


def attention(q, k, v, heads):
    batch, sequence, hidden = q.shape
    q, k, v = (t.reshape(batch, sequence, heads, hidden // heads).swapaxes(1, 2) for t in (q, k, v))
    q, k = rotate(q), rotate(k)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(hidden // heads)
    weights = np.exp(scores) * np.tril(np.ones((sequence, sequence)))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ v).swapaxes(1, 2).reshape(batch, sequence, hidden)


def rotate(x):
    """Rotary positions: feature i turns with feature i + half."""
    sequence, size = x.shape[-2:]
    half = size // 2
    angles = np.outer(np.arange(sequence), 10000.0 ** (-np.arange(half) / half))
    first, second = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def swiglu(x):
    gate, up = np.split(x, 2, axis=-1)
    return gate / (1 + np.exp(-gate)) * up


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
