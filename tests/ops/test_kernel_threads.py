import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import ops

generator = np.random.default_rng(5)
def normal(*shape):
    return generator.standard_normal(shape, dtype=np.float32)

outputs = []
for tokens, depth, width in ((777, 130, 383), (512, 128, 384), (3, 700, 129)):
    x, w, dy = normal(tokens, depth), normal(depth, width), normal(tokens, width)
    outputs += [ops.linear(x, w), ops.linear_backward_input(dy, w)]
    outputs += [ops.linear_backward_weight(x, dy), ops.bias_backward(dy)]
for causal in (False, True):
    q, k, v, do = normal(2, 4, 150, 32), normal(2, 2, 170, 32), normal(2, 2, 170, 32), normal(2, 4, 150, 32)
    o, lse = ops.flash_attention(q, k, v, causal=causal, return_lse=True)
    outputs += [o, lse, *ops.flash_attention_backward(q, k, v, o, lse, do, causal=causal)]
print(hashlib.sha256(b"".join(x.tobytes() for x in outputs)).hexdigest())
"""  # noqa: E501


def digest(threads):
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_bits_do_not_depend_on_the_number_of_threads():
    one = digest(1)
    assert len(one) == 65
    assert digest(2) == one
