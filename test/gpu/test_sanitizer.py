"""compute-sanitizer over the small shapes: no stray access, no race.

Each tool runs the ``small`` tests of ``test_gemm.py``, those of ``test_tile_kernels.py``, the small
ones of ``test_pingpong.py`` and the small chains of ``test_scans.py``, in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyc.test.support.each_variant import LEFT_OUT

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]

OPTIONS = {"initcheck": ["--check-api-memory-access", "no"]}
"""initcheck does not see what TMA stores, and takes the host's copy of an output that left by TMA
for a read of memory that nobody wrote; what kernels read stays checked."""

UNFOLLOWED = {"racecheck": "_split"}
"""Variants that a tool does not follow, by a part of their names.

racecheck does not see an mbarrier order what other blocks of a cluster store in a block's shared
memory before they arrive at it, and reports each sum of ``gemm_tma_64x64_split4``; with such
kernels excluded by its own options it ends at a hardware exception.  The simulator checks them
(``test/unit/families/matmul/test_split.py``).
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tool", TOOLS)
def test_small_shapes_are_clean(root: Path, tool: str, arch: str) -> None:
    clean(root, tool, "test_gemm.py", f"every_variant and small and {arch} and not bf16")


@pytest.mark.parametrize("tool", TOOLS)
def test_kernels_written_in_tiles_are_clean(root: Path, tool: str) -> None:
    clean(root, tool, "test_tile_kernels.py", "test_kernel and small and not bf16")


@pytest.mark.parametrize("tool", TOOLS)
def test_consumers_in_turns_are_clean(root: Path, tool: str) -> None:
    clean(root, tool, "test_pingpong.py", "(one or odd or three or residual or batch) and not many")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tool", TOOLS)
def test_blocks_that_look_back_are_clean(root: Path, tool: str, arch: str) -> None:
    clean(root, tool, "test_scans.py", f"small_chains and {arch}")


def clean(root: Path, tool: str, file: str, chosen: str) -> None:
    """Runs the tests of ``file`` that ``chosen`` picks under one tool."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(sanitizer):
        pytest.skip("compute-sanitizer is not on the PATH")
    path = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    tests = [str(root / "test" / "gpu" / file), "-k", chosen]
    done = subprocess.run(
        [
            *(sanitizer, "--tool", tool, "--error-exitcode", "86", "--print-limit", "5"),
            *OPTIONS.get(tool, []),
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests),
        ],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root / ".typecheck"), *path]),
            LEFT_OUT: UNFOLLOWED.get(tool, ""),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
