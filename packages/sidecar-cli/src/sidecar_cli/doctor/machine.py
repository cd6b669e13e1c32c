"""Looks at the machine: versions, cores, memory, disks."""

from __future__ import annotations

import os
import platform
import resource
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.isolation.options import available_cores
from sidecar_core.parquet_index.cache import CacheOptions
from sidecar_core.problems import counted
from sidecar_core.testing.isolated_functions import allocate

from sidecar_cli.doctor.finding import Finding, fail, ok, warn

_OWN = ("sidecar-core", "sidecar-filters", "sidecar-resize", "sidecar-runtimes", "sidecar-cli")
_OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python")
_OPTIONAL = {
    "boto3": "s3:// prefixes need it: pip install 'sidecar-core[s3]'",
    "ray": "the runtimes ray and actor need it: pip install 'sidecar-runtimes[ray]'",
    "duckdb": "inspect --sql needs it: pip install 'sidecar-cli[sql]'",
}
_PYTHONS = ((3, 11), (3, 14))
_GIB = 2**30
_CAP_BYTES = 512 * 2**20
_START_S = 60.0
_LITTLE_DISK_BYTES, _NO_DISK_BYTES = 10 * _GIB, _GIB
_FILES = 1024


def version_findings() -> Iterator[Finding]:
    """Yields the versions of Python and of each package that sidecar uses."""
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_version()} on {system}"
    if _PYTHONS[0] <= sys.version_info[:2] < _PYTHONS[1]:
        yield ok("python", python)
    else:
        yield fail("python", python, "Python 3.11, 3.12 or 3.13")
    own = {name: _version(name) for name in _OWN}
    missing = [name for name, found in own.items() if found is None]
    if missing:
        yield fail("sidecar", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield ok("sidecar", ", ".join(f"{name.removeprefix('sidecar-')} {found}" for name, found in own.items()))
    for name in ("pyarrow", "pillow"):
        found = _version(name)
        yield ok(name, found) if found else fail(name, "not installed", f"pip install {name}")
    yield _opencv()
    for name, why in _OPTIONAL.items():
        found = _version(name)
        yield ok(name, found) if found else warn(name, "not installed", why)


def core_findings() -> Iterator[Finding]:
    """Yields the cores that this process may use, and how many files it may open."""
    cores, quota = available_cores(), _cpu_quota()
    if quota is not None and quota < cores:
        fact = f"{cores}, of which the container may use {quota:g} at a time"
        yield warn("cores", fact, f"--workers {max(1, round(quota))}; default would be {cores}")
    else:
        yield ok("cores", f"{cores} (--workers {cores} is the default)")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        yield warn("open files", shown, f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}")
    else:
        yield ok("open files", shown)


def memory_findings() -> Iterator[Finding]:
    """Yields the memory there is, and whether an isolated child really cannot have more than its cap."""
    total, cores = _memory_bytes(), available_cores()
    fact = f"{total / _GIB:.1f} GiB for {counted(cores, 'worker')}"
    if total < cores * _GIB:
        few = max(1, total // _GIB)
        yield warn("memory", fact, f"--workers {few}: less than 1 GiB a worker is little for large pictures")
    else:
        yield ok("memory", fact)
    options = IsolationOptions(workers=1, memory_cap_bytes=_CAP_BYTES)
    with IsolationPool(options) as pool:
        pool.call(allocate, _CAP_BYTES // 8, timeout_s=_START_S)
        try:
            pool.call(allocate, 4 * _CAP_BYTES, timeout_s=_START_S)
        except WorkerCallFailed as failed:
            if failed.cause == "out_of_memory":
                yield ok("memory cap", "a child that asks for more than its cap is refused, and only its row is lost")
            else:
                yield fail("memory cap", f"a child that asked for more than its cap: {failed}", "report this")
            return
    fact = "a child got four times its cap"
    if sys.platform == "darwin":
        yield warn("memory cap", fact, "macOS does not enforce it; run dirty datasets with fewer --workers")
    else:
        yield fail("memory cap", fact, "RLIMIT_AS is not enforced here; run in a container with a memory limit")


def disk_findings() -> Iterator[Finding]:
    """Yields the free space of the folders that sidecar writes to on its own: temporary files and the cache."""
    yield from folder_findings(
        "temporary folder", Path(tempfile.gettempdir()), "set TMPDIR to a folder on a larger disk"
    )
    cache = CacheOptions.from_environment().folder
    yield from folder_findings("cache folder", cache, "set SIDECAR_CACHE_DIR to a folder on a larger disk")


def folder_findings(what: str, folder: Path, fix: str) -> Iterator[Finding]:
    """Yields whether a folder, or the nearest one above it that is there, can be written and has room."""
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        yield fail(what, f"{folder} cannot be written", fix)
        return
    found = os.statvfs(there)
    free = found.f_bavail * found.f_frsize
    fact = f"{folder}: {free / _GIB:.1f} GiB free"
    if free < _NO_DISK_BYTES:
        yield fail(what, fact, fix)
    elif free < _LITTLE_DISK_BYTES:
        yield warn(what, fact, fix)
    elif _is_memory(there):
        yield warn(what, f"{fact}, which is memory (tmpfs)", fix)
    else:
        yield ok(what, fact)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _opencv() -> Finding:
    found = [f"{name} {installed}" for name in _OPENCV if (installed := _version(name))]
    if len(found) > 1:
        fix = "keep opencv-python-headless and uninstall the others: they overwrite each other's files"
        return warn("opencv", ", ".join(found), fix)
    return ok("opencv", found[0]) if found else fail("opencv", "not installed", "pip install opencv-python-headless")


def _cpu_quota() -> float | None:
    """Returns the cores that a container may use, or None where there is no limit or no such file."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _memory_bytes() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return total


def _is_memory(folder: Path) -> bool:
    """Returns whether a folder lies on a tmpfs; False where that cannot be seen."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    mounts = {fields[1]: fields[2] for line in lines if len(fields := line.split()) > 2}
    real = folder.resolve()
    return next((mounts[str(path)] for path in (real, *real.parents) if str(path) in mounts), "") == "tmpfs"
