"""A matrix product that skips blocks of its left operand, for the passes that handle guards.

``S`` says which blocks of A, ``BLOCK`` columns each and as many rows as the tile, are not zero.
The body of the pipeline is one branch, as an author writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 64
"""Columns of a block of A, which is also the pipeline's step."""


@dataclass(frozen=True)
class BlockSparse:
    """How the product runs: on roles with TMA and wgmma, or in one stream with cp.async.

    In ``body`` the words ``LOAD A``, ``LOAD B`` and ``CONTRACT`` stand for the ops, and ``%used``
    says whether this block is one of A's.  ``persistent`` wraps the tile into a tile loop.
    ``cluster`` CTAs of a persistent kernel share B by multicast; the blocks are then the same for
    all rows.  ``align`` is what rows of A and B promise, in bytes.  ``stored`` tiles leave by TMA,
    and a token says when they have been read.
    """

    arch: str = "sm_90a"
    persistent: bool = False
    cluster: int = 1
    stages: int = 3
    body: str = "scf.if %used { LOAD A LOAD B CONTRACT }"
    align: int = 16
    stored: bool = False

    @property
    def tile(self) -> tuple[int, int]:
        return (128, 128) if self.arch == "sm_90a" else (64, 64)

    @property
    def threads(self) -> int:
        return 384 if self.arch == "sm_90a" else 128

    def blocks(self, m: int, k: int) -> tuple[int, int]:
        """The shape of S."""
        rows = 1 if self.cluster > 1 else -(-m // self.tile[0])
        return rows, -(-k // BLOCK)

    def text(self) -> str:
        rows, columns = self.tile
        mma, warp = (
            ("wgmma", f"<64, {columns}>") if self.threads == 384 else ("mma.sync", "<32, 32>")
        )
        height = "1" if self.cluster > 1 else f"(M + {rows - 1}) floordiv {rows}"
        mask = f"!gpu.global<[{height}, (K + {BLOCK - 1}) floordiv {BLOCK}], i32>"
        a, b = f"!gpu.shared<[{rows}, {BLOCK}], f16>", f"!gpu.shared<[{BLOCK}, {columns}], f16>"
        acc = f"!gpu.fragment<[{rows}, {columns}], f32>"
        share = "multicast " if self.cluster > 1 else ""
        load = f"gpu.copy %A[%m0, %k] to %a : !gpu.global<[M, K], f16>, {a}"
        shared_load = f"gpu.copy %B[%k, %n0] to %b {share}: !gpu.global<[K, N], f16>, {b}"
        contract = (
            "gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> "
            f'into %acc mma "{mma}" warp_tile {warp} : {a}, {b}, {acc}'
        )
        body = self.body.replace("LOAD A", load).replace("LOAD B", shared_load)
        body = body.replace("CONTRACT", contract)
        persistent = " persistent" if self.persistent else ""
        c = f"!gpu.shared<[{rows}, {columns}], f32>"
        leave = f"""gpu.map %acc : {acc} origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f32> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {{
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }}"""
        if self.stored:
            leave = f"""gpu.copy %acc to %c : {acc}, {c}
    %t = gpu.copy %c to %C[%m0, %n0] loader "tma" : {c}, !gpu.global<[M, N], f32> -> !gpu.token
    gpu.await %t"""
        stage = f"%c = gpu.shared_tile : {c}" if self.stored else ""
        row = "%none" if self.cluster > 1 else "%row"
        work = f"""
    %row = affine.apply affine_map<(d0) -> (d0 floordiv {rows})> (%m0)
    %acc = gpu.fragment : {acc}
    gpu.fill %zero, %acc : {acc}
    gpu.pipeline %k, %i = to %K step {BLOCK} stages {self.stages} {{
      %block = gpu.load_global %S[{row}, %i : index, index] : {mask} -> i32
      %used = arith.cmpi ne, %block, %nothing : i32
      {body}
    }}
    {leave}"""
        tiles = f'%m0, %n0 = gpu.tile_coordinates[%M, %N] tile <{rows}, {columns}> raster "row" 1'
        if self.persistent:
            loop = f"gpu.tile_loop (%m0, %n0, %n) = [%M, %N] tile <{rows}, {columns}>"
            work = f'{loop} raster "row" 1 {{\n{work}\n}}'
        else:
            work = f"{tiles}\n{work}"
        threads = f"threads {self.threads}{f' cluster {self.cluster}' if self.cluster > 1 else ''}"
        even = f"K mod {self.align // 2} == 0, N mod {self.align // 2} == 0"
        down = f"(M + {rows * self.cluster - 1}) floordiv {rows * self.cluster} * {self.cluster}"
        return f"""
gpu.module @sparse arch "{self.arch}" symbols [M, K, N] {{
  gpu.kernel @sparse(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %S: {mask} = tensor 2, %C: !gpu.global<[M, N], f32> = tensor 3,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) {threads} {{
    %zero = arith.constant 0.0 : f32
    %nothing = arith.constant 0 : i32
    %none = arith.constant 0 : index
    %a = gpu.shared_tile : {a}
    %b = gpu.shared_tile : {b}
    {stage}
    {work}
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16>, S: {mask})
      -> (C: !gpu.global<[M, N], f32>) {{
    gpu.launch @sparse when ({even}, K >= 1) align [{self.align}, {self.align}, 4, 16]
        grid [{down}, (N + {columns - 1}) floordiv {columns}]{persistent}
  }}
}}
"""

    def inputs(self, m: int, n: int, k: int, used: float = 0.5, seed: int = 0) -> list[Array]:
        """A, B and S; A is not zero in the blocks that S leaves out."""
        rng = np.random.default_rng([seed, m, n, k])
        a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((m, k), (k, n)))
        return [a, b, (rng.random(self.blocks(m, k)) < used).astype(np.int32)]

    def expected(self, inputs: Sequence[Array]) -> Array:
        """The product of what S keeps of A, and B."""
        a, b, s = inputs
        high = a.shape[0] if s.shape[0] == 1 else self.tile[0]
        kept = np.kron(s, np.ones((high, BLOCK)))[: a.shape[0], : a.shape[1]]
        return (a * kept).astype(np.float32) @ b.astype(np.float32)
