"""The operators' formulas in float64 numpy, written to be read, and gradients by differences."""

import numpy as np


def rms_norm(x, gamma, epsilon=1e-6):
    rstd = 1 / np.sqrt((x.astype(float) ** 2).mean(axis=1) + epsilon)
    return x * rstd[:, None] * gamma, rstd


def rotary(x, angles):
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = np.split(x.astype(float), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def swiglu(x):
    a, b = np.split(x.astype(float), 2, axis=1)
    return a / (1 + np.exp(-a)) * b


def gelu(x):
    x = x.astype(float)
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def log_sum_exp(y):
    top = y.max(axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top)
    with np.errstate(divide="ignore"):
        return (top + np.log(np.exp(y - top).sum(axis=-1, keepdims=True)))[..., 0]


def cross_entropy(logits, targets):
    logits = logits.astype(float)
    return (log_sum_exp(logits) - logits[np.arange(len(targets)), targets]).sum()


def kept(queries, keys, causal):
    """True where query i may see key j; the last query sees every key."""
    i, j = np.arange(queries)[:, None], np.arange(keys)[None, :]
    return j <= i + keys - queries if causal else np.ones((queries, keys), bool)


def attention(q, k, v, causal=False, scale=None):
    """Dense attention of BNSD arrays: o and lse; 0 and -inf where nothing is kept."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    y = scale * (q @ k.swapaxes(-1, -2))
    y = np.where(kept(q.shape[2], k.shape[2], causal), y, -np.inf)
    lse = log_sum_exp(y)
    p = np.exp(y - np.where(np.isinf(lse), np.inf, lse)[..., None])
    return p @ v, lse


def attention_backward(q, k, v, do, causal=False, scale=None):
    """Gradients of dense attention, by the chain rule on whole matrices."""
    heads, group = k.shape[1], q.shape[1] // k.shape[1]
    q, k, v, do = (x.astype(float) for x in (q, k, v, do))
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    o, lse = attention(q, k, v, causal, scale)
    y = np.where(kept(q.shape[2], k.shape[2], causal), scale * (q @ k.swapaxes(-1, -2)), -np.inf)
    p = np.exp(y - np.where(np.isinf(lse), np.inf, lse)[..., None])
    ds = scale * p * (do @ v.swapaxes(-1, -2) - (do * o).sum(axis=-1, keepdims=True))
    dk, dv = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do

    def over_group(x):
        return x.reshape(len(x), heads, group, *x.shape[2:]).sum(axis=2)

    return ds @ k, over_group(dk), over_group(dv)


def difference_gradient(function, x, dy, step=1e-5):
    """Gradient of sum(dy * function(x)) by central differences in float64."""
    x = x.astype(float)
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = ((function(up) - function(down)) * dy).sum() / (2 * step)
    return gradient
