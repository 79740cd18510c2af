"""The shape and type of an array as a message of fixed size, where only one rank knows them."""

import msgpack
import numpy as np

from hcom.arguments import Array
from hcom.data_type import DATA_TYPES, data_type_of

SHAPE_BYTES = 512


def pack_shape(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Pack a shape and a type that travels."""
    number = data_type_of(np.empty(0, dtype)).number
    packed = msgpack.packb([number, *shape])
    message = np.zeros(SHAPE_BYTES, np.uint8)
    message[0] = len(packed)
    message[1 : 1 + len(packed)] = np.frombuffer(packed, np.uint8)
    return message


def unpack_shape(message: Array) -> tuple[tuple[int, ...], np.dtype]:
    """Read what `pack_shape` made."""
    number, *shape = msgpack.unpackb(message[1 : 1 + int(message[0])].tobytes())
    dtype = next(kind.numpy for kind in DATA_TYPES if kind.number == number)
    return tuple(shape), dtype
