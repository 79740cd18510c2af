"""The one numba decorator: it decides cache, error model and float flags for every kernel.

The cache folder is keyed by a hash of every kernel source and of what those sources import here,
because numba's own stamp looks only at the file a function stands in (numba documentation,
"Notes on Caching"): an edit in a helper would otherwise be missed. Where several ranks need one
kernel at once, the first compiles it and the others wait for its file and load it.
"""

import ast
import atexit
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite
import numba
import numba.extending
from numba.core import config as numba_config
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

P = ParamSpec("P")
R = TypeVar("R")

# What softmax code may have: all of fast-math but nnan and ninf, which fold isnan and -inf tests
# to False (numba#6217). `reassoc` lets sums vectorise; the order stays fixed per compiled kernel.
FAST_FLAGS = frozenset({"contract", "nsz", "arcp", "reassoc", "afn"})

_PACKAGES = ("hcom", "ops", "parallel", "launch")
_ROOT = Path(__file__).resolve().parent.parent


def _imports(source: Path) -> set[str]:
    """Dotted names of our own modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] in _PACKAGES}


def _module_file(name: str) -> Path | None:
    stem = _ROOT.joinpath(*name.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def kernel_sources() -> list[Path]:
    """Every file with a kernel (it imports this module) and every file those import, sorted."""
    files = {path for package in _PACKAGES for path in (_ROOT / package).rglob("*.py")}
    imports = {path: _imports(path) for path in files if b"jit" in path.read_bytes()}
    pending = [path for path, names in imports.items() if "hcom.jit" in names]
    found: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in found or path.name == "__init__.py":
            continue
        found.add(path)
        names = imports.get(path) or _imports(path)
        pending.extend(file for name in names if (file := _module_file(name)) is not None)
    return sorted(found)


def source_key() -> str:
    """Hash of all kernel sources and of the compiler's version: the name of the cache folder."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in kernel_sources():
        digest.update(str(path.relative_to(_ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled kernels are kept: below NUMBA_CACHE_DIR if set, else the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    base = os.environ.get("NUMBA_CACHE_DIR") or str(Path(home) / "hcom")
    return Path(base) / f"kernels-{source_key()}"


def _writable(folder: Path) -> Path:
    """Make the folder; where that is refused, one for this process alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        reason = "it is not writable"
    except OSError as error:
        reason = error.strerror or str(error)
    own = tempfile.TemporaryDirectory(prefix="hcom-kernels-")
    atexit.register(own.cleanup)
    sys.stderr.write(
        f"hcom: compiled kernels cannot be kept in {folder} ({reason}) and are compiled anew in "
        "every process; set NUMBA_CACHE_DIR to a folder that can be written\n"
    )
    return Path(own.name)


class _CompileOnce:
    """numba's function cache with a lock: one process compiles, the others load what it saved.

    The lock is taken when there is nothing to load, and held until the function is saved or its
    compilation has failed.
    """

    def __init__(self, cache: Any, lock: Path) -> None:
        self._cache, self._lock, self._held = cache, lock, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        found = self._cache.load_overload(signature, target_context)
        if found is None and self._held < 0:
            self._held = os.open(self._lock, os.O_CREAT | os.O_RDWR)
            fcntl.flock(self._held, fcntl.LOCK_EX)
            found = self._cache.load_overload(signature, target_context)
            if found is not None:
                self._release()
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            self._cache.save_overload(signature, data)
        finally:
            self._release()

    def released_after(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        """Release the lock also where compiling ends in an error."""

        def compile_and_release(*signature: Any) -> Any:
            try:
                return compile_(*signature)
            finally:
                self._release()

        return compile_and_release

    def _release(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def _compile_once(dispatcher: Any, function: Any) -> Any:
    cache = getattr(dispatcher, "_cache", None)
    if cache is None or numba_config.DISABLE_JIT:
        return dispatcher
    folder = Path(numba_config.CACHE_DIR)
    lock = folder / f"{function.__module__}.{function.__qualname__}.lock"
    dispatcher._cache = once = _CompileOnce(cache, lock)
    dispatcher.compile = once.released_after(dispatcher.compile)
    return dispatcher


def jit(
    *, parallel: bool = False, fast: bool = False, inline: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel with numba: nopython, no interpreter lock, cached, numpy's error model.

    Parameters
    ----------
    parallel : let numba run its `prange` loops on threads; rows must be independent, so that bits
        do not depend on the number of threads.
    fast : allow FAST_FLAGS; never for code whose rounding order is promised.
    inline : always inline into the caller (small helpers of hot loops).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher = numba.njit(
            parallel=parallel,
            fastmath=set(FAST_FLAGS) if fast else False,
            forceinline=inline,
            error_model="numpy",
            nogil=True,
            cache=True,
        )(function)
        return cast(Callable[P, R], _compile_once(dispatcher, function))

    return decorate


def cfunc(signature: str | Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that other kernels call by its address (`.address`)."""

    def decorate(function: Callable[..., Any]) -> Any:
        options = {"error_model": "numpy"}
        made = CFunc(function, normalize_signature(signature), locals={}, options=options)
        made.enable_caching()
        _compile_once(made, function).compile()
        return made

    return decorate


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of (typing context, argument types) an operation that kernels can call."""
    return cast(Callable[..., Any], numba.extending.intrinsic(function))


# Threads that have nothing to do sleep: where others compute too, GNU OpenMP's spinning turned a
# loop of 0.2 ms into one of 4.5 ms. Read when the first parallel kernel starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

numba_config.CACHE_DIR = str(_writable(cache_folder()))
