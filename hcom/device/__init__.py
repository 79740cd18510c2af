"""The device room: what an emulated NPU is (profile, clocks, memory, trace), without MPI."""

from hcom.device.device import INSTALLED, Device, current, install
from hcom.device.memory import MemoryPool
from hcom.device.profile import LinkClass, Profile, load_profile, profile_names
from hcom.device.timeline import write_timeline
from hcom.device.trace import Event, Trace

__all__ = [
    "INSTALLED",
    "Device",
    "Event",
    "LinkClass",
    "MemoryPool",
    "Profile",
    "Trace",
    "current",
    "install",
    "load_profile",
    "profile_names",
    "write_timeline",
]
