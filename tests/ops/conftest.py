import numba
import numpy as np
import pytest

from hcom.device import Device, install, load_profile


@pytest.fixture(autouse=True)
def device():
    """A fresh device, one thread, and no warnings where kernels run as plain Python."""
    numba.set_num_threads(1)
    device = install(Device(load_profile("ascend910b")))
    with np.errstate(all="ignore" if numba.config.DISABLE_JIT else "warn"):
        yield device
    install(Device(load_profile("ascend910b")))


@pytest.fixture
def normal():
    """Draws float32 arrays; each test sees the same numbers."""
    generator = np.random.default_rng(7)
    return lambda *shape: generator.standard_normal(shape, dtype=np.float32)
