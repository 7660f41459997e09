"""Kernels whose steps multiply, round the products and multiply again, as attention's do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import SimulationResult
from polyc.test.support.gpu_text import only, run

Array = NDArray[np.float32] | NDArray[np.float16]

KEYS = 64
"""Rows of K and V that a step takes, and their width."""


def chained(
    groups: int = 2,
    *,
    tiles: bool = False,
    branch: str = "%some",
    before: str = "",
    first: str = "",
    after_scores: str = "",
    after_weights: str = "",
    after: str = "",
    bound: str = "%N",
    other: str = "",
) -> str:
    """``O = f16(Q · Kᵀ) · V`` by tiles of 64 rows a group, as a plain loop over rows of K and V.

    ``tiles`` makes the kernel persistent; ``branch`` is the condition around the loop, empty for
    none, and ``other`` its other side.  The others are text that is put in: before the branch,
    in front of the loop (``keys_first`` makes another loop), behind the scores, behind the weights,
    behind the loop.
    """
    rows = 64 * groups
    held = {
        "q": f"!gpu.shared<[{rows}, 64], f16>",
        "kv": "!gpu.shared<[64, 64], f16>",
        "acc": f"!gpu.fragment<[{rows}, 64], f32>",
        "half": f"!gpu.fragment<[{rows}, 64], f16>",
        "Q": "!gpu.global<[M, 64], f16>",
        "K": "!gpu.global<[N, 64], f16>",
        "O": "!gpu.global<[M, 64], f32>",
    }
    copy_q = f'gpu.copy %Q[%row, %c0] to %q loader "tma" : {held["Q"]}, {held["q"]}'
    head = f"gpu.pipeline %k, %i = to {bound} step 64 stages 2"
    walk = f"""
{copy_q}
{first}
{head} {{
  gpu.copy %K[%k, %c0] to %kt loader "tma" : {held["K"]}, {held["kv"]}
  gpu.copy %V[%k, %c0] to %vt loader "tma" : {held["K"]}, {held["kv"]}
  gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %kt affine_map<(m, n, k) -> (n, k)>
      into %s clear mma "wgmma" warp_tile <64, 64> : {held["q"]}, {held["kv"]}, {held["acc"]}
  {after_scores}
  gpu.map %s : {held["acc"]} origin [] ins()
      outs(%p : {held["half"]} affine_map<(i, j) -> (i, j)>) {{
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f16
    gpu.yield %y : f16
  }}
  {after_weights}
  gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %vt affine_map<(m, n, k) -> (k, n)>
      into %o mma "wgmma" warp_tile <64, 64> : {held["half"]}, {held["kv"]}, {held["acc"]}
}}
{after}
"""
    body = f"""
gpu.fill %zero, %o : {held["acc"]}
{before}
{f"scf.if {branch} {{ {walk} }} {other}" if branch else walk}
gpu.map %o : {held["acc"]} origin [%row] ins()
    outs(%O : {held["O"]} affine_map<(i, j)[r] -> (i + r, j)>) {{
^bb0(%x: f32):
  gpu.yield %x : f32
}}
"""
    if tiles:
        walk = f'[%M, %c1] tile <{rows}, 1> raster "row" 1'
        body = f"gpu.tile_loop (%row, %column, %n) = {walk} {{ {body} }}"
    else:
        body = f"""
%block = gpu.block_id
%row = affine.apply affine_map<(b) -> (b * {rows})> (%block)
{body}"""
    return f"""
gpu.module @m arch "sm_90a" symbols [M, N] {{
  gpu.kernel @k(%Q: {held["Q"]} = tensor 0, %K: {held["K"]} = tensor 1, %V: {held["K"]} = tensor 2,
      %O: {held["O"]} = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads {128 * (groups + 1)} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %some = arith.cmpi sgt, %N, %c0 : index
    %q = gpu.shared_tile : {held["q"]}
    %kt = gpu.shared_tile : {held["kv"]}
    %vt = gpu.shared_tile : {held["kv"]}
    %s = gpu.fragment : {held["acc"]}
    %p = gpu.fragment : {held["half"]}
    %o = gpu.fragment : {held["acc"]}
    {body}
    gpu.return
  }}
  gpu.dispatch (Q: {held["Q"]}, K: {held["K"]}, V: {held["K"]}) -> (O: {held["O"]}) {{
    gpu.launch @k when (M >= 1) align [16, 16, 16, 16] grid [(M + {rows - 1}) floordiv {rows}]
        {"persistent" if tiles else ""}
  }}
}}
"""


def keys_first(groups: int = 2, *, bound: str = "%N", stages: int = 2, before: str = "") -> str:
    """A loop over tiles of K that adds their products with Q to O, column by column.

    ``before`` is text behind it, in front of the other loop.
    """
    rows = 64 * groups
    kv, acc = "!gpu.shared<[64, 64], f16>", f"!gpu.fragment<[{rows}, 64], f32>"
    at = "affine_map<(i, j) -> (i, j)>"
    return f"""
gpu.pipeline %l, %j = to {bound} step 64 stages {stages} {{
  gpu.copy %K[%l, %c0] to %kt loader "tma" : !gpu.global<[N, 64], f16>, {kv}
  gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %kt affine_map<(m, n, k) -> (n, k)> into %s
      clear mma "wgmma" warp_tile <64, 64> : !gpu.shared<[{rows}, 64], f16>, {kv}, {acc}
  gpu.map %o : {acc} origin [] ins(%s : {acc} {at}) outs(%o : {acc} {at}) {{
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    gpu.yield %z : f32
  }}
}}
{before}
"""


def in_columns(given: Sequence[Array]) -> NDArray[np.float32]:
    """What the loop of ``keys_first`` over all keys adds."""
    q, k = (np.asarray(x, np.float32) for x in given[:2])
    whole = np.zeros((-(-len(k) // KEYS) * KEYS, KEYS), np.float32)
    whole[: len(k)] = k
    return np.asarray(q @ whole.reshape(-1, KEYS, KEYS).sum(0).T, np.float32)


def growing(groups: int = 2, more: int = -100, *, branch: bool = True) -> str:
    """``chained`` in a tile loop, where a tile from row ``r`` on sees the keys before ``r + more``.

    Keys are seen by whole steps.  Without ``branch`` the loop over no keys stands in none.
    """
    return chained(
        groups,
        tiles=True,
        branch="%any" if branch else "",
        before=f"""
%more = affine.apply affine_map<(r) -> (r + {more})> (%row)
%end = arith.minsi %more, %N : index
%any = arith.cmpi sgt, %end, %c0 : index""",
        bound="%end",
    )


def inputs(sizes: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Q, K and V of small integers, whose products and sums are exact."""
    rng = np.random.default_rng(seed)
    shapes = [(sizes["M"], 64), (sizes["N"], 64), (sizes["N"], 64)]
    return [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]


def meant(given: Sequence[Array], groups: int = 2, more: int | None = None) -> NDArray[np.float32]:
    """What a kernel of ``chained`` gives; with ``more`` one of ``growing``."""
    q, k, v = (np.asarray(x, np.float32) for x in given)
    rows, count = 64 * groups, len(k)
    found: list[NDArray[np.float32]] = []
    for row in range(0, len(q), rows):
        seen = count if more is None else min(count, -(-(row + more) // KEYS) * KEYS)
        n = max(0, seen)
        found.append(np.asarray((q[row : row + rows] @ k[:n].T) @ v[:n], np.float32))
    return np.concatenate(found)


def simulated(
    text: str, sizes: Mapping[str, int], *without: str, seed: int = 0
) -> SimulationResult:
    """A program through all gpu passes but some, thread by thread."""
    module = run(text, *(name for name in GPU_PASSES if name not in without))
    return simulate(only(module, ModuleOp), inputs(sizes, seed), dict(sizes), seed=seed)


def assert_right(
    text: str,
    sizes: Mapping[str, int],
    *without: str,
    seed: int = 0,
    wanted: Array | None = None,
) -> None:
    """Assert that threads find what is meant, and nothing between them is unordered."""
    result = simulated(text, sizes, *without, seed=seed)
    assert not result.findings, "\n".join(map(str, result.findings))
    right = meant(inputs(sizes, seed)) if wanted is None else wanted
    np.testing.assert_array_equal(result.outputs[0], right)
