"""The device functions of random numbers, compiled for this machine, give what playback has."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from polyc.dialects.gpu.hardware.random import COUNTS
from polyc.lowering.gpu_to_cuda.asm import FUNCTIONS
from polyc.lowering.gpu_to_cuda.random import PAIRS
from polyc.playback.philox import pair

HEAD = """
typedef unsigned int u32; typedef unsigned long long u64; typedef long long i64;
#define __device__
#define __forceinline__ static inline
"""
NAMES = {"philox": (1, 1)} | {f"philox_x{c}_by{m}": (c, m) for c, m in PAIRS}
"""Each function's neighbours, and what the first of them is a multiple of."""


def source() -> str:
    text = HEAD + "".join(f"struct i64x{count} {{ i64 v[{count}]; }};\n" for count in COUNTS)
    text += "\n".join(FUNCTIONS[name].text for name in NAMES) + '\nextern "C" {\n'
    for name, (count, _) in NAMES.items():
        text += (
            f"void run_{name}(i64 place, i64 seed, i64* out) {{\n  auto r = {name}(place, seed);\n"
        )
        found = "r" if count == 1 else "r.v[i]"
        text += f"  for (int i = 0; i < {count}; ++i) out[i] = {found};\n}}\n"
    return text + "}\n"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_they_compute_what_playback_does(tmp_path: Path) -> None:
    """Of places anywhere, at the first ones, and across the end of 64 bits."""
    text, library = tmp_path / "random.cpp", tmp_path / "random.so"
    text.write_text(source())
    command = ["g++", "-w", "-O1", "-shared", "-fPIC", "-o", str(library), str(text)]
    subprocess.run(command, check=True)
    loaded, dice = ctypes.CDLL(str(library)), random.Random(1)
    for name, (count, multiple) in NAMES.items():
        function = getattr(loaded, f"run_{name}")
        for first in (
            *range(9),
            *(2**64 - i for i in range(1, 9)),
            *(dice.getrandbits(64) for _ in range(9)),
        ):
            place, seed = first - first % multiple, dice.getrandbits(64)
            out = (ctypes.c_uint64 * count)()
            function(ctypes.c_uint64(place), ctypes.c_uint64(seed), out)
            places = np.asarray([(place + i) % 2**64 for i in range(count)], np.uint64)
            assert list(out) == pair(places, np.asarray(seed, np.uint64)).tolist(), (name, place)
