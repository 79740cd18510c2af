"""The kernel compiler: its cache key, one compiler for all processes, its float rules."""

import ast
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from hcom import jit as module
from hcom.jit import FAST_FLAGS, cfunc, jit, kernel_sources, source_key

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hcom", "ops", "parallel", "launch")
KERNEL = re.compile(r"@(jit|intrinsic)\b|\bcfunc\(|\bjit\(.*\)\(")


# What the cache is keyed by


def files_of(package):
    return sorted((ROOT / package).rglob("*.py"))


def own_imports(tree):
    """(module, name) of each name that a file imports from this project."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import: kernel_sources does not follow those"
            if node.module.split(".")[0] in PACKAGES:
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in PACKAGES:
                    yield alias.name, None


def file_of(name):
    path = ROOT / (name.replace(".", "/") + ".py")
    return path if path.exists() else None


def names_in_kernels(tree):
    """Names that a file's compiled functions read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            re.match(r"jit\(|cfunc\(|intrinsic", ast.unparse(d)) for d in node.decorator_list
        ):
            yield from (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def test_the_key_covers_every_file_with_a_kernel():
    covered = set(kernel_sources())
    with_kernels = {
        path
        for package in PACKAGES
        for path in files_of(package)
        if KERNEL.search(path.read_text())
    }
    assert len(with_kernels) > 10
    assert with_kernels <= covered


def test_the_key_covers_what_kernel_files_import():
    covered = set(kernel_sources())
    for path in covered:
        for name, imported in own_imports(ast.parse(path.read_text())):
            for file in (file_of(name), imported and file_of(f"{name}.{imported}")):
                assert not file or file in covered, f"{path} imports {file}"


def test_no_kernel_reads_a_name_that_a_package_only_passes_on():
    """The key leaves `__init__.py` out, so a kernel must import from where a name is made."""
    for path in kernel_sources():
        tree = ast.parse(path.read_text())
        used = set(names_in_kernels(tree))
        for name, imported in own_imports(tree):
            passed_on = file_of(name) is None and file_of(f"{name}.{imported}") is None
            assert not (passed_on and imported in used), f"{path}: {imported} of {name}"


FILES = {
    "hcom/__init__.py": "",
    "hcom/jit.py": "def jit(): ...\n",
    "ops/__init__.py": "",
    "ops/kernel.py": "from hcom.jit import jit\nfrom ops.helper import half\n",
    "ops/helper.py": "from ops.deeper import TWO\n\ndef half(x): return x / TWO\n",
    "ops/deeper.py": "TWO = 2\n",
    "ops/plain.py": "from ops.helper import half\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project of the same form, in place of this one."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    return tmp_path


def test_sources_are_kernel_files_and_all_they_import(project):
    names = [str(path.relative_to(project)) for path in kernel_sources()]
    assert names == ["hcom/jit.py", "ops/deeper.py", "ops/helper.py", "ops/kernel.py"]


@pytest.mark.parametrize("name", ["ops/kernel.py", "ops/helper.py", "ops/deeper.py", "hcom/jit.py"])
def test_a_change_in_a_kernel_or_in_what_it_imports_changes_the_key(project, name):
    before = source_key()
    path = project / name
    path.write_text(path.read_text() + "# another line\n")
    assert source_key() != before


def test_a_change_elsewhere_keeps_the_key(project):
    before = source_key()
    for name in ("ops/plain.py", "ops/__init__.py"):
        path = project / name
        path.write_text(path.read_text() + "# another line\n")
    assert source_key() == before
    (project / "ops/more.py").write_text("from ops.kernel import half\n")
    assert source_key() == before


def test_another_compiler_has_another_key(project, monkeypatch):
    before = source_key()
    monkeypatch.setattr(module.llvmlite, "__version__", "0.0")
    assert source_key() != before


def test_the_same_text_in_another_file_has_another_key(project):
    before = source_key()
    (project / "ops/kernel.py").rename(project / "ops/other.py")
    assert source_key() != before


# One process compiles, the others load

COMPILED_ONCE = """
import sys, time
from pathlib import Path

from hcom.jit import jit


@jit()
def slow_to_compile(x):
    total = 0.0
    for i in range(x.size):
        {body}
    return total


import numpy as np

folder, number = Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{{number}}").touch()
while len(list(folder.glob("ready-*"))) < 2:
    time.sleep(0.001)
assert slow_to_compile(np.ones(3)) > 0
stats = slow_to_compile.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def start(script, folder, *arguments):
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder / "kernels")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process, limit=60):
    with process:
        try:
            out, error = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, error
    return out


def test_of_two_processes_one_compiles_and_the_other_waits_and_loads(tmp_path):
    body = "\n        ".join(f"total += x[i] * {n}.0 if x[i] > {n} else 1.0" for n in range(60))
    script = tmp_path / "both.py"
    script.write_text(COMPILED_ONCE.format(body=body))
    both = [start(script, tmp_path, str(number)) for number in range(2)]
    counts = sorted(end(process).split() for process in both)
    assert counts == [["0", "1"], ["1", "0"]]  # hits, misses


ADDRESS_ONCE = """
import sys, time
from pathlib import Path

from hcom.jit import cfunc

folder, number = Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{{number}}").touch()
while len(list(folder.glob("ready-*"))) < 2:
    time.sleep(0.001)


def slow_to_compile(x):
    total = 0.0
    {body}
    return total


print(cfunc("float64(float64)")(slow_to_compile).cache_hits)
"""


def test_of_two_processes_one_compiles_a_function_with_an_address(tmp_path):
    body = "\n    ".join(f"total += x * {n}.0 if x > {n} else 1.0" for n in range(200))
    script = tmp_path / "both.py"
    script.write_text(ADDRESS_ONCE.format(body=body))
    both = [start(script, tmp_path, str(number)) for number in range(2)]
    assert sorted(end(process).strip() for process in both) == ["0", "1"]


def test_without_a_folder_to_keep_them_kernels_still_run_and_one_line_says_so():
    nowhere = {"HOME": "/proc/nowhere", "PYTHONPATH": str(ROOT)}
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    program = "from hcom.transport.host import _take\nimport numpy as np\n"
    program += "x = np.array([5])\nprint(_take(x.ctypes.data), x[0])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | nowhere,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "5 6\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert "cannot be kept in /proc/nowhere/.cache/hcom" in line
    assert "set NUMBA_CACHE_DIR" in line


FAILS_THEN_RUNS = """
import sys, time
from pathlib import Path

import numba
import numpy as np

from hcom.jit import jit


@jit()
def double(x):
    return x + x


folder, number = Path(sys.argv[1]), sys.argv[2]
if number == "0":
    try:
        double({1: 2})
    except numba.TypingError:
        (folder / "failed").touch()
    while not (folder / "done").exists():
        time.sleep(0.01)
else:
    while not (folder / "failed").exists():
        time.sleep(0.01)
    print(double(4.0))
"""


def test_a_failed_compilation_lets_the_others_compile(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(FAILS_THEN_RUNS)
    first, second = (start(script, tmp_path, number) for number in "01")
    try:
        assert end(second, limit=20) == "8.0\n"
    finally:
        (tmp_path / "done").touch()
        end(first)


def test_a_changed_kernel_is_compiled_anew(tmp_path):
    script = tmp_path / "again.py"
    text = textwrap.dedent(
        """
        from hcom.jit import jit

        @jit()
        def answer(x):
            return x + 1

        print(answer(1))
        """
    )
    script.write_text(text)
    assert end(start(script, tmp_path)) == "2\n"
    script.write_text(text.replace("x + 1", "x + 40"))
    assert end(start(script, tmp_path)) == "41\n"


# Float rules


def test_fast_kernels_still_know_nan_and_infinity():
    @jit(fast=True)
    def looks(x):
        return x != x, np.isnan(x), x == -np.inf, np.isfinite(x)

    assert looks(math.nan) == (True, True, False, False)
    assert looks(-math.inf) == (False, False, True, False)
    assert looks(1.0) == (False, False, False, True)


def flags_of(kernel):
    (signature,) = kernel.signatures
    lines = re.findall(
        r"= (?:tail )?f(?:add|mul) ([a-z ]*?)(?:double|float)", kernel.inspect_llvm(signature)
    )
    return {frozenset(line.split()) for line in lines}


def test_fast_allows_all_but_the_two_flags_that_assume_no_nan_and_no_infinity():
    assert FAST_FLAGS == {"contract", "nsz", "arcp", "reassoc", "afn"}

    @jit(fast=True)
    def fast(x, y, z):
        return x * y + z

    @jit()
    def exact(x, y, z):
        return x * y + z

    for kernel in (fast, exact):
        kernel(1.0, 2.0, 3.0)
    assert flags_of(fast) == {FAST_FLAGS}
    assert flags_of(exact) == {frozenset()}


def test_a_plain_kernel_adds_in_the_written_order():
    @jit()
    def added(x):
        total = np.float32(0)
        for i in range(x.size):
            total += x[i]
        return total

    x = (np.random.default_rng(0).standard_normal(10_000) * 1e3).astype(np.float32)
    expected = np.float32(0)
    for value in x:
        expected = np.float32(expected + value)
    assert added(x) == expected


def test_a_kernel_divides_by_zero_as_numpy_does_and_holds_no_interpreter_lock():
    @jit()
    def divided(x, y):
        return x / y

    assert divided(1.0, 0.0) == math.inf
    assert math.isnan(divided(0.0, 0.0))
    assert divided.targetoptions["nogil"]
    assert divided.targetoptions["nopython"]


def test_a_function_with_an_address_computes_what_is_written():
    import ctypes

    @cfunc("float64(float64, float64)")
    def ratio(x, y):
        return x / y

    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(ratio.address)
    assert call(3.0, 4.0) == 0.75
    assert call(1.0, 0.0) == math.inf
