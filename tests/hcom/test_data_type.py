"""Types that travel and operations that reduce them, by HCCL's names and numbers."""

import ml_dtypes
import numpy as np
import pytest

from hcom.data_type import DATA_TYPES, REDUCE_OPS, check_reduce, data_type_of

# HcclDataType (HCCL reference, 2.1); bool is none of HCCL's.
HCCL = {
    "int8": (0, np.int8),
    "int16": (1, np.int16),
    "int32": (2, np.int32),
    "fp16": (3, np.float16),
    "fp32": (4, np.float32),
    "int64": (5, np.int64),
    "uint64": (6, np.uint64),
    "uint8": (7, np.uint8),
    "uint16": (8, np.uint16),
    "uint32": (9, np.uint32),
    "fp64": (10, np.float64),
    "bfp16": (11, ml_dtypes.bfloat16),
    "fp8e4m3": (15, ml_dtypes.float8_e4m3fn),
    "fp8e5m2": (16, ml_dtypes.float8_e5m2),
}
KIND = {kind.name: kind for kind in DATA_TYPES}


@pytest.mark.parametrize("name", HCCL)
def test_a_type_has_hccls_number_and_its_numpy_type(name):
    number, dtype = HCCL[name]
    kind = data_type_of(np.zeros(3, dtype))
    assert (kind.name, kind.number, kind.nbytes) == (name, number, np.dtype(dtype).itemsize)


def test_numbers_and_names_are_given_once():
    assert len({kind.number for kind in DATA_TYPES}) == len(DATA_TYPES)
    assert set(KIND) == {*HCCL, "bool"}
    assert KIND["bool"].number not in range(18)  # HCCL's own


@pytest.mark.parametrize(
    "dtype", ["U3", "S3", "complex64", "O", "datetime64[s]", [("a", np.int32)], ">f4"]
)
def test_a_type_that_does_not_travel_is_refused_with_those_that_do(dtype):
    with pytest.raises(TypeError, match=r"do not travel; these do: int8, int16.*bfloat16.*bool"):
        data_type_of(np.zeros(2, dtype))


@pytest.mark.parametrize("op", REDUCE_OPS)
def test_every_operation_is_defined_where_it_has_a_meaning(op):
    floats = {"fp16", "fp32", "fp64", "bfp16"}
    reduced = floats if op == "avg" else set(KIND) - {"fp8e4m3", "fp8e5m2"}
    for name, kind in KIND.items():
        if name in reduced:
            check_reduce(kind, op)
        else:
            with pytest.raises(ValueError, match=name):
                check_reduce(kind, op)


def test_an_unknown_operation_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="one of sum, prod, max, min, avg, not 'mean'"):
        check_reduce(KIND["fp32"], "mean")


def test_a_refused_reduction_says_what_to_do_instead():
    with pytest.raises(ValueError, match="int32: use 'sum' and divide"):
        check_reduce(KIND["int32"], "avg")
    with pytest.raises(ValueError, match="moved but not reduced: convert to fp16 or fp32"):
        check_reduce(KIND["fp8e4m3"], "sum")
