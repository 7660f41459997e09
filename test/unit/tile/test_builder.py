"""polyc.tile: each form builds what its text says, at the user's lines; misuse is refused there."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportArgumentType=false, reportUnusedExpression=false, reportCallIssue=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FileLineColLoc

import polyc.tile as T
from polyc.dialects.common.diagnostic import PolycError, place_of
from polyc.dialects.gpu import hardware as hw
from polyc.rewriting.driver import verify
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

HERE = str(Path(__file__))

M, K, N, B = T.sizes("M", "K", "N", "B")

NO_TYPE = "f99"

Body = Callable[..., None]


def program(body: Body, threads: int = 384, cluster: int = 1, arch: str = "sm_90a") -> T.Program:
    """``body`` in a kernel that binds everything."""

    @T.program(arch=arch, name="m")
    def built(
        A: T.Tensor[M, K, T.f16],
        X: T.Tensor[N, T.f16],
        C: T.Out[M, N, T.f16],
        Y: T.Out[M, N, T.f32],
    ) -> None:
        with T.kernel("k", threads=threads, grid=[1], binds=[A, X, C, Y, M, K, N], cluster=cluster):
            body(A, X, C, Y)

    return built


def test_ctas_that_wait_for_each_other() -> None:
    @T.program(arch="sm_90a", name="m")
    def built(C: T.Out[M, N, T.f32]) -> None:
        with T.sequence("all"):
            arrived = T.workspace("arrived", [M, 2], T.i32, zeroed=True)
            with T.kernel("k", threads=64, grid=[M, N], persistent=True, cooperative=[N]) as k:
                row = T.block_id()
                one = T.const(1)
                T.grid_signal(arrived[row, one])
                T.grid_wait(arrived[row, one], until=N)
            T.launch(k, grid=[N], cooperative=True)

    text = module_text(built.module())
    assert "gpu.grid_signal %arrived[%row, %one] : !gpu.global<[M, 2], i32>" in text
    assert "gpu.grid_wait %arrived[%row, %one] until %N : !gpu.global<[M, 2], i32>" in text
    assert "gpu.launch @k grid [M, N] persistent cooperative [N]" in text
    assert "gpu.launch @k grid [N] cooperative\n" in text


def test_a_counter_is_a_place_of_a_tensor() -> None:
    with pytest.raises(PolycError, match=r"at a place of a tensor, arrived\[row\]"):
        program(lambda A, X, C, Y: T.grid_signal(A)).module()


def test_a_kernel_says_its_registers() -> None:
    @T.program(arch="sm_90a", name="m")
    def built(X: T.Tensor[N, T.f16]) -> None:
        with T.kernel("k", threads=256, grid=[1], registers=(40, 232), attributes={"note": "x"}):
            T.read(X[T.const(0)])

    text = module_text(built.module())
    assert ' threads 256 registers [40, 232] attributes {note = "x"} {' in text


def test_a_size_that_divides_a_product() -> None:
    def body(A: T.Tensor, X: T.Tensor, C: T.Tensor, Y: T.Tensor) -> None:
        T.read(X["((M * N + 5) floordiv 4) mod 3"])

    text = module_text(program(body).module())
    assert "arith.muli %M, %N" in text
    assert "floordiv 4" in text and "mod 3" in text


def test_an_element_is_read_outside_of_a_body() -> None:
    def body(A: T.Tensor, X: T.Tensor, C: T.Tensor, Y: T.Tensor) -> None:
        place = T.const(3)
        x = T.read(X[place])
        with T.when(x > 0.0):
            T.barrier()

    text = module_text(program(body).module())
    assert "%x = gpu.load_global %X[%place : index] : !gpu.global<[N], f16> -> f16" in text
    assert "scf.if" in text
    with pytest.raises(PolycError, match=r"a place of a tensor, used\[row, i\]"):
        program(lambda A, X, C, Y: T.read(X)).module()


HEADER = """
gpu.module @m arch "{arch}" symbols [M, K, N] {{
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %X: !gpu.global<[N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2, %Y: !gpu.global<[M, N], f32> = tensor 3,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N)
      threads {threads} {cluster} {{
{body}
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[M, K], f16>, X: !gpu.global<[N], f16>)
      -> (C: !gpu.global<[M, N], f16>, Y: !gpu.global<[M, N], f32>) {{
    gpu.launch @k align [16, 16, 16, 16] grid [1]
  }}
}}
"""


def same(body: Body, text: str, threads: int = 384, cluster: int = 1, arch: str = "sm_90a") -> None:
    """The built module prints as the text's does, is the same ops and types, and verifies."""
    built = program(body, threads, cluster, arch).module()
    verify(built)
    wanted = parse_text(
        make_context(),
        HEADER.format(
            body=text,
            threads=threads,
            cluster=f"cluster {cluster}" if cluster > 1 else "",
            arch=arch,
        ),
        "wanted.mlir",
    )
    verify(wanted)
    assert module_text(built) == module_text(wanted)
    assert built.is_structurally_equivalent(wanted)


# Forms ---------------------------------------------------------------------------------


def test_fragments_and_shared_tiles() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((128, 64), T.f16, ring=4, swizzle=128)
        b = T.alloc_shared((64, 64), "bfloat16")
        acc = T.alloc_fragment((128, 256), "float32")
        T.clear(acc)
        T.fill(acc, -T.inf)
        half = T.alloc_fragment([64], T.f16)
        T.fill(half, 1)
        layout = T.fragment_layout(32, 2, lambda t, r: t * 2 + r)
        said = T.alloc_fragment(64, T.f32, layout=layout)
        T.clear(said)
        assert a.shape == (128, 64) and acc.dtype == T.f32 and b.dtype == T.bf16

    same(
        body,
        """
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], bf16>
    %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
    %0 = arith.constant 0.0 : f32
    gpu.fill %0, %acc : !gpu.fragment<[128, 256], f32>
    %1 = arith.constant 0xFF800000 : f32
    gpu.fill %1, %acc : !gpu.fragment<[128, 256], f32>
    %half = gpu.fragment : !gpu.fragment<[64], f16>
    %2 = arith.constant 1.0 : f16
    gpu.fill %2, %half : !gpu.fragment<[64], f16>
    %said = gpu.fragment : !gpu.fragment<[64], f32, #gpu.fragment_layout<threads 32, registers 2,
        affine_map<(t, r) -> (t * 2 + r)>>>
    gpu.fill %0, %said : !gpu.fragment<[64], f32, #gpu.fragment_layout<threads 32, registers 2,
        affine_map<(t, r) -> (t * 2 + r)>>>
""",
    )


def test_annotated_layouts() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((64, 64), T.f16, ring=2)
        m = T.alloc_fragment((64,), T.f32)
        T.annotate_layout(
            {a: T.swizzle(64), m: T.fragment_layout(32, 2, lambda t, r: (t + r * 32,))}
        )
        T.copy(A[0, 0], a.slot(0))
        T.clear(m)

    same(
        body,
        """
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 64, ring 2>
    %m = gpu.fragment : !gpu.fragment<[64], f32, #gpu.fragment_layout<threads 32, registers 2,
        affine_map<(d0, d1) -> (d0 + d1 * 32)>>>
    %0 = arith.constant 0 : index
    gpu.copy %A[%0, %0] to %a slot %0 : !gpu.global<[M, K], f16>,
        !gpu.shared<[64, 64], f16, swizzle 64, ring 2>
    %1 = arith.constant 0.0 : f32
    gpu.fill %1, %m : !gpu.fragment<[64], f32, #gpu.fragment_layout<threads 32, registers 2,
        affine_map<(d0, d1) -> (d0 + d1 * 32)>>>
""",
    )


def test_copies() -> None:
    def body(A, X, C, Y) -> None:
        ring = T.ring(4, consumers=2, peers=2)
        a = T.alloc_shared((128, 64), T.f16, ring=4)
        c = T.alloc_shared((64, 64), T.f16)
        p = T.alloc_fragment((64, 64), T.f16)
        wide = T.alloc_fragment((64, 256), T.f16)
        T.copy(A[M, N], a.slot(K), loader="tma", multicast=True, signal=ring[K])
        loaded = T.copy(A[M, N], a.slot(K), loader="cp_async", token=True)
        T.copy(wide[:, 192:], c)
        T.copy(c, wide, window=(0, 64))
        T.copy(c, p)
        T.copy(c, C[M, N], loader="register")
        stored = T.copy(a.slot(M), C[M, N], loader="tma", token=True)
        T.copy(C[M, N], p)
        T.copy(p, C[M, N])
        T.atomic("max", p, C[M, N])
        T.await_(loaded, stored)
        T.await_(pending=1)

    same(
        body,
        """
    %ring = gpu.ring consumers 2 peers 2 : !gpu.ring<4>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 4>
    %c = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %wide = gpu.fragment : !gpu.fragment<[64, 256], f16>
    gpu.copy %A[%M, %N] to %a slot %K loader "tma" multicast signal %ring : !gpu.ring<4> at %K
        : !gpu.global<[M, K], f16>, !gpu.shared<[128, 64], f16, ring 4>
    %loaded = gpu.copy %A[%M, %N] to %a slot %K loader "cp_async"
        : !gpu.global<[M, K], f16>, !gpu.shared<[128, 64], f16, ring 4> -> !gpu.token
    gpu.copy %wide to %c window <0, 192> : !gpu.fragment<[64, 256], f16>, !gpu.shared<[64, 64], f16>
    gpu.copy %c to %wide window <0, 64> : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 256], f16>
    gpu.copy %c to %p : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.copy %c to %C[%M, %N] loader "register"
        : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16>
    %stored = gpu.copy %a slot %M to %C[%M, %N] loader "tma"
        : !gpu.shared<[128, 64], f16, ring 4>, !gpu.global<[M, N], f16> -> !gpu.token
    gpu.copy %C[%M, %N] to %p : !gpu.global<[M, N], f16>, !gpu.fragment<[64, 64], f16>
    gpu.copy %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16>
    gpu.atomic "max" %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16>
    gpu.await %loaded, %stored
    gpu.await pending 1
""",
        cluster=2,
    )


def test_taps_and_axes() -> None:
    H, W, R = T.sizes("H", "W", "R")

    @T.program(name="conv")
    def built(
        X: T.Tensor[N, H, W, K, T.f16], F: T.Tensor[R, 9, K, T.f16], Y: T.Out[N, R, T.f16]
    ) -> None:
        with T.kernel("k", threads=128, grid=[1], binds=[X, F]):
            a = T.alloc_shared((128, 64), T.f16)
            b = T.alloc_shared((64, 64), T.f16)
            geometry = T.im2col(kernel=(3, 3), padding=(1, 1))
            T.copy(X[0, 1, 2, 0], a, im2col=geometry, tap=(1, 2))
            T.copy(F[0, 1, 2], b, axes=(0, 2))

    text = str(built)
    assert (
        "gpu.copy %X[%0, %1, %2, %0] to %a im2col #gpu.im2col<kernel [3, 3], strides [1, 1], "
        "padding [1, 1], dilation [1, 1]> tap [%1, %2]" in text
    )
    assert "gpu.copy %F[%0, %1, %2] to %b axes <0, 2>" in text
    assert "symbols [N, H, W, K, R]" in text


def test_contractions() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((128, 64), T.f16)
        b = T.alloc_shared((64, 256), T.f16)
        acc = T.alloc_fragment((128, 256), T.f32)
        T.gemm(a, b, acc)
        at = T.alloc_shared((64, 128), T.f16, ring=2)
        bt = T.alloc_shared((256, 64), T.f16, ring=2)
        done = T.gemm(
            at.slot(1),
            bt.slot(0),
            acc,
            transpose_a=True,
            transpose_b=True,
            mma="mma.sync",
            warp_tile=(64, 64),
            token=True,
        )
        p = T.alloc_fragment((128, 64), T.f16)
        T.gemm(p, b, acc, clear=True, token=True)
        T.await_(done)
        T.await_(pending=0, ready=[acc])
        T.gemm(a, b, acc, fragment_buffers=2, attributes={"note": "x"})

    same(
        body,
        """
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 256], f16>
    %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %acc mma "wgmma" warp_tile <64, 256>
        : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 256], f16>, !gpu.fragment<[128, 256], f32>
    %at = gpu.shared_tile : !gpu.shared<[64, 128], f16, ring 2>
    %bt = gpu.shared_tile : !gpu.shared<[256, 64], f16, ring 2>
    %0 = arith.constant 1 : index
    %1 = arith.constant 0 : index
    %done = gpu.contract %at slot %0 affine_map<(m, n, k) -> (k, m)>,
        %bt slot %1 affine_map<(m, n, k) -> (n, k)> into %acc mma "mma.sync" warp_tile <64, 64>
        : !gpu.shared<[64, 128], f16, ring 2>, !gpu.shared<[256, 64], f16, ring 2>,
          !gpu.fragment<[128, 256], f32> -> !gpu.token
    %p = gpu.fragment : !gpu.fragment<[128, 64], f16>
    %2 = gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %acc clear mma "wgmma" warp_tile <64, 256>
        : !gpu.fragment<[128, 64], f16>, !gpu.shared<[64, 256], f16>, !gpu.fragment<[128, 256], f32>
        -> !gpu.token
    gpu.await %done
    gpu.await pending 0 ready %acc : !gpu.fragment<[128, 256], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %acc mma "wgmma" warp_tile <64, 256> fragment_buffers 2 {note = "x"}
        : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 256], f16>, !gpu.fragment<[128, 256], f32>
""",
    )


@pytest.mark.parametrize(
    ("arch", "threads", "m", "n", "wanted"),
    [
        ("sm_80", 256, 128, 128, '"mma.sync" warp_tile <64, 32>'),
        ("sm_80", 128, 128, 128, '"mma.sync" warp_tile <64, 64>'),
        ("sm_80", 128, 16, 256, '"mma.sync" warp_tile <16, 64>'),
        ("sm_90a", 128, 64, 96, '"wgmma" warp_tile <64, 96>'),
        ("sm_90a", 128, 32, 64, '"mma.sync" warp_tile <32, 16>'),
    ],
)
def test_what_a_gemm_takes_where_nothing_is_said(
    arch: str, threads: int, m: int, n: int, wanted: str
) -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((m, 32), T.f16)
        b = T.alloc_shared((32, n), T.f16)
        T.gemm(a, b, T.alloc_fragment((m, n), T.f32))

    assert wanted in str(program(body, threads, arch=arch))


def test_reductions() -> None:
    def body(A, X, C, Y) -> None:
        s = T.alloc_fragment((64, 64), T.f32)
        m = T.alloc_fragment((64,), T.f32)
        one = T.alloc_fragment((64, 1), T.f32)
        four = T.alloc_fragment((64, 4), T.f32)
        T.reduce("max", s, m, axis=1, accumulate=True, cluster=True)
        T.reduce("sum", s, four, by=lambda i, j: (i, j // 2 % 4))
        T.reduce_sum(s, m)
        T.reduce_max(s, m, axis=0, clear=False)
        T.reduce_min(s, one)

    kinds = "!gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>"
    same(
        body,
        f"""
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %m = gpu.fragment : !gpu.fragment<[64], f32>
    %one = gpu.fragment : !gpu.fragment<[64, 1], f32>
    %four = gpu.fragment : !gpu.fragment<[64, 4], f32>
    gpu.reduce max %s by affine_map<(i, j) -> (i)> into %m accumulate cluster : {kinds}
    gpu.reduce sum %s by affine_map<(i, j) -> (i, (j floordiv 2) mod 4)> into %four
        : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 4], f32>
    gpu.reduce sum %s by affine_map<(i, j) -> (i)> into %m : {kinds}
    gpu.reduce max %s by affine_map<(i, j) -> (j)> into %m accumulate : {kinds}
    gpu.reduce min %s by affine_map<(i, j) -> (i, 0)> into %one
        : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 1], f32>
""",
        cluster=2,
    )


def test_a_branch_that_any_element_decides() -> None:
    def body(A, X, C, Y) -> None:
        s = T.alloc_fragment((64, 64), T.f32)
        wrong = T.alloc_fragment((64, 64), T.i1)
        with T.parallel(s) as (i, j):
            wrong[i, j] = s[i, j] < 0.0
        again = T.any(wrong)
        with T.when(again):
            T.clear(s)

    same(
        body,
        """
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %wrong = gpu.fragment : !gpu.fragment<[64, 64], i1>
    gpu.map %s : !gpu.fragment<[64, 64], f32> origin [] ins()
        outs(%wrong : !gpu.fragment<[64, 64], i1> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%0: f32):
      %1 = arith.constant 0.0 : f32
      %2 = arith.cmpf olt, %0, %1 : f32
      gpu.yield %2 : i1
    }
    %again = gpu.any %wrong : !gpu.fragment<[64, 64], i1>
    scf.if %again {
      %3 = arith.constant 0.0 : f32
      gpu.fill %3, %s : !gpu.fragment<[64, 64], f32>
    }
""",
    )


def test_a_line_is_scanned_in_place() -> None:
    def body(A, X, C, Y) -> None:
        s = T.alloc_fragment((64, 64), T.f32)
        c = T.alloc_fragment((64, 1), T.f32)
        T.scan("sum", s)
        T.scan("max", s, carry=c, reverse=True, exclusive=True)

    kinds = "!gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 1], f32>"
    same(
        body,
        f"""
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %c = gpu.fragment : !gpu.fragment<[64, 1], f32>
    gpu.scan sum %s axis 1 : !gpu.fragment<[64, 64], f32>
    gpu.scan max %s axis 1 carry %c reverse exclusive : {kinds}
""",
    )


def test_a_cluster_has_a_tile_together() -> None:
    def body(A, X, C, Y) -> None:
        row, _ = T.tile_coordinates(M, N, tile=(64, 64), raster="row", cluster=True)
        s = T.alloc_fragment((64, 64), T.f32)
        part = T.alloc_fragment((64, 32), T.f32)
        T.reduce_scatter("sum", s, part)
        T.reduce_scatter("max", s, part, rows=M - row)

    kinds = "!gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 32], f32>"
    same(
        body,
        f"""
    %row, %0 = gpu.tile_coordinates[%M, %N] tile <64, 64> raster "row" 8 cluster
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %part = gpu.fragment : !gpu.fragment<[64, 32], f32>
    gpu.reduce_scatter sum %s into %part : {kinds}
    %1 = affine.apply affine_map<(d0, d1) -> (d0 - d1)>(%M, %row)
    gpu.reduce_scatter max %s rows %1 into %part : {kinds}
""",
        cluster=2,
    )


def test_parallel_becomes_a_map() -> None:
    def body(A, X, C, Y) -> None:
        acc = T.alloc_fragment((128, 256), T.f32)
        row, col = T.tile_coordinates(M, N, tile=(128, 256))
        with T.parallel(acc) as (i, j):
            x = acc[i, j]
            C[row + i, col + j] = T.max(x + X[col + j], 0)

    same(
        body,
        """
    %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
    %row, %col = gpu.tile_coordinates[%M, %N] tile <128, 256> raster "grouped" 8
    gpu.map %acc : !gpu.fragment<[128, 256], f32> origin [%row, %col]
        ins(%X : !gpu.global<[N], f16> affine_map<(i, j)[r, c] -> (c + j)>)
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[r, c] -> (r + i, c + j)>) {
    ^bb0(%x: f32, %0: f16):
      %1 = arith.extf %0 : f16 to f32
      %2 = arith.addf %x, %1 : f32
      %3 = arith.constant 0.0 : f32
      %4 = arith.maximumf %2, %3 : f32
      %5 = arith.truncf %4 : f32 to f16
      gpu.yield %5 : f16
    }
""".replace("origin [%row, %col]", "origin [%col, %row]").replace("[r, c]", "[c, r]"),
    )


def test_parallel_over_sizes_in_place_with_statistics_and_masks() -> None:
    def body(A, X, C, Y) -> None:
        s = T.alloc_fragment((64, 64), T.f32)
        m = T.alloc_fragment((64,), T.f32)
        p = T.alloc_fragment((64, 64), T.f16)
        c = T.alloc_shared((64, 64), T.f16)
        k0 = T.block_id()
        with T.parallel(64, 64) as (i, j):
            p[i, j] = c[j, i]
            place = k0 + j
            inside = place < N
            s[i, j] = T.select(inside, T.exp2(T.fma(s[i, j], 2.0, -m[i])), -T.inf)
            s[i, j] += 1

    same(
        body,
        """
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %m = gpu.fragment : !gpu.fragment<[64], f32>
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %c = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %k0 = gpu.block_id
    gpu.map %p : !gpu.fragment<[64, 64], f16> origin []
        ins(%c : !gpu.shared<[64, 64], f16> affine_map<(i, j) -> (j, i)>,
            %s : !gpu.fragment<[64, 64], f32> affine_map<(i, j) -> (i, j)>,
            %m : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
        outs(%p : !gpu.fragment<[64, 64], f16> affine_map<(i, j) -> (i, j)>,
             %s : !gpu.fragment<[64, 64], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%0: f16, %1: f16, %2: f32, %3: f32):
      %j = gpu.tile_index 1
      %place = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%k0, %j)
      %inside = arith.cmpi slt, %place, %N : index
      %4 = arith.negf %3 : f32
      %5 = arith.constant 2.0 : f32
      %6 = math.fma %2, %5, %4 : f32
      %7 = math.exp2 %6 : f32
      %8 = arith.constant 0xFF800000 : f32
      %9 = arith.select %inside, %7, %8 : f32
      %10 = arith.constant 1.0 : f32
      %11 = arith.addf %9, %10 : f32
      gpu.yield %1, %11 : f16, f32
    }
""",
    )


def test_scalars() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64,), T.f32)
        with T.parallel(f) as (i,):
            x = f[i]
            y = -x / 3 - 1.5 * T.exp2(x, approximate=True)
            z = T.min(T.sqrt(y), T.rsqrt(y)) + T.log(abs(y))
            half = T.cast(z, T.f16)
            at = T.cast(i, T.f32)
            big = (x > 1) & ~(x == 2) | (z != 0)
            f[i] = T.select(big, T.cast(half, T.f32) * at, T.sigmoid(x))

    same(
        body,
        """
    %f = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.map %f : !gpu.fragment<[64], f32> origin [] ins()
        outs(%f : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>) {
    ^bb0(%x: f32):
      %0 = arith.negf %x : f32
      %1 = arith.constant 3.0 : f32
      %2 = arith.divf %0, %1 : f32
      %99 = math.exp2 %x fastmath<afn> : f32
      %3 = arith.constant 1.5 : f32
      %4 = arith.mulf %3, %99 : f32
      %y = arith.subf %2, %4 : f32
      %5 = math.sqrt %y : f32
      %6 = math.rsqrt %y : f32
      %7 = arith.minimumf %5, %6 : f32
      %8 = math.absf %y : f32
      %9 = math.log %8 : f32
      %z = arith.addf %7, %9 : f32
      %half = arith.truncf %z : f32 to f16
      %i = gpu.tile_index 0
      %10 = arith.index_cast %i : index to i32
      %at = arith.sitofp %10 : i32 to f32
      %11 = arith.constant 1.0 : f32
      %12 = arith.cmpf ogt, %x, %11 : f32
      %13 = arith.constant 2.0 : f32
      %14 = arith.cmpf oeq, %x, %13 : f32
      %15 = arith.constant true
      %16 = arith.xori %14, %15 : i1
      %17 = arith.andi %12, %16 : i1
      %18 = arith.constant 0.0 : f32
      %19 = arith.cmpf une, %z, %18 : f32
      %big = arith.ori %17, %19 : i1
      %20 = arith.extf %half : f16 to f32
      %21 = arith.mulf %20, %at : f32
      %22 = arith.negf %x : f32
      %23 = math.exp %22 : f32
      %24 = arith.addf %11, %23 : f32
      %25 = arith.divf %11, %24 fastmath<afn> : f32
      %26 = arith.select %big, %21, %25 : f32
      gpu.yield %26 : f32
    }
""",
    )


def test_index_arithmetic() -> None:
    def body(A, X, C, Y) -> None:
        p = T.alloc_fragment((64, 64), T.f16)
        block = T.block_id()
        steps = T.ceildiv(K, 64) - 1
        row = block * 64 % 7 + 2 * steps
        back = 5 - row // 2
        area = M * N
        per = area // K
        left = block % N
        quick = T.divide(left, per)
        rest = T.remainder(left, 8)
        best = T.max(quick, T.min(rest, 3))
        beyond = K * 2 + best
        plain = T.subtract(T.add(K, 1), best)
        said = T.apply(lambda k, b: T.ceildiv(k, 8) - b // 2, K, best)
        mixed = T.apply(lambda b, k: b + k - 1, best, symbols=[K])
        chosen = T.select(best < 4, best, 0)
        T.copy(p, C[back + 1, chosen])
        T.copy(p, C[row, row + 64])

    same(
        body,
        """
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %block = gpu.block_id
    %steps = affine.apply affine_map<()[k] -> (k ceildiv 64 - 1)> ()[%K]
    %row = affine.apply affine_map<(d0, d1) -> ((d0 * 64) mod 7 + d1 * 2)> (%block, %steps)
    %back = affine.apply affine_map<(d0) -> (-(d0 floordiv 2) + 5)> (%row)
    %area = arith.muli %M, %N : index
    %per = arith.floordivsi %area, %K : index
    %0 = arith.floordivsi %block, %N : index
    %1 = arith.muli %0, %N : index
    %left = arith.subi %block, %1 : index
    %quick = arith.divui %left, %per : index
    %2 = arith.constant 8 : index
    %rest = arith.remui %left, %2 : index
    %3 = arith.constant 3 : index
    %4 = arith.minsi %rest, %3 : index
    %best = arith.maxsi %quick, %4 : index
    %beyond = affine.apply affine_map<(k, b) -> (k * 2 + b)> (%K, %best)
    %5 = arith.constant 1 : index
    %6 = arith.addi %K, %5 : index
    %plain = arith.subi %6, %best : index
    %said = affine.apply affine_map<(k, b) -> (k ceildiv 8 - b floordiv 2)> (%K, %best)
    %mixed = affine.apply affine_map<(b)[k] -> (b + k - 1)> (%best)[%K]
    %7 = arith.constant 4 : index
    %8 = arith.cmpi slt, %best, %7 : index
    %9 = arith.constant 0 : index
    %chosen = arith.select %8, %best, %9 : index
    %10 = affine.apply affine_map<(d0) -> (d0 + 1)> (%back)
    gpu.copy %p to %C[%10, %chosen] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16>
    %11 = affine.apply affine_map<(d0) -> (d0 + 64)> (%row)
    gpu.copy %p to %C[%row, %11] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16>
""",
    )


def test_loops_and_conditions() -> None:
    def body(A, X, C, Y) -> None:
        p = T.alloc_fragment((64, 64), T.f16)
        zero = T.const(0)
        one = T.const(1)
        with T.serial(zero, K, one, unroll=True) as i:
            T.copy(p, C[i, 0])
        for i in T.serial(M):
            T.copy(p, C[i, 0])
        loop = T.serial(K, carried=[zero, 1.5])
        with loop as (i, at, sum):
            more = sum + 2
            after = at + i
            loop.carry(after, more)
        last, total = loop.results
        with T.when(last < N):
            T.copy(p, C[last, 0])
        choice = T.when(total > 0)
        with choice:
            choice.give(last, total)
        with choice.otherwise():
            choice.give(0, 1.0)
        where, what = choice.results
        other = T.when(where == 3)
        with other:
            T.copy(p, C[where, 0])
        with other.otherwise():
            T.copy(p, C[0, where])

    copy = "!gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16>"
    same(
        body,
        f"""
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    scf.for %i = %zero to %K step %one {{
      gpu.copy %p to %C[%i, %zero] : {copy}
    }} {{unroll}}
    scf.for %i = %zero to %M step %one {{
      gpu.copy %p to %C[%i, %zero] : {copy}
    }}
    %0 = arith.constant 1.5 : f32
    %last, %total = scf.for %i = %zero to %K step %one iter_args(%at = %zero, %sum = %0)
        -> (index, f32) {{
      %1 = arith.constant 2.0 : f32
      %more = arith.addf %sum, %1 : f32
      %after = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%at, %i)
      scf.yield %after, %more : index, f32
    }}
    %2 = arith.cmpi slt, %last, %N : index
    scf.if %2 {{
      gpu.copy %p to %C[%last, %zero] : {copy}
    }}
    %3 = arith.constant 0.0 : f32
    %4 = arith.cmpf ogt, %total, %3 : f32
    %where, %what = scf.if %4 -> (index, f32) {{
      scf.yield %last, %total : index, f32
    }} else {{
      %5 = arith.constant 1.0 : f32
      scf.yield %zero, %5 : index, f32
    }}
    %6 = arith.constant 3 : index
    %7 = arith.cmpi eq, %where, %6 : index
    scf.if %7 {{
      gpu.copy %p to %C[%where, %zero] : {copy}
    }} else {{
      gpu.copy %p to %C[%zero, %where] : {copy}
    }}
""",
    )


def test_tokens_are_carried() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((64, 64), T.f16)
        first = T.copy(A[0, 0], a, loader="cp_async", token=True)
        loop = T.serial(K, carried=[first])
        with loop as (i, t):
            T.await_(t)
            following = T.copy(A[0, i], a, loader="cp_async", token=True)
            loop.carry(following)
        (last,) = loop.results
        T.await_(last)

    text = str(program(body))
    assert "%last = scf.for %i = %0 to %K step %1 iter_args(%t = %first) -> (!gpu.token)" in text
    assert "scf.yield %following : !gpu.token" in text
    verify(program(body).module())


def test_roles_rings_and_turns() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((64, 64), T.f16, ring=4)
        ring = T.ring(4, consumers=1)
        order = T.order_barrier(2)
        with T.roles(consumers=2, registers=(24, 240), independent=True) as roles:
            with roles.producer():
                with T.tile_loop((M, N), tile=(128, 256), raster="grouped", group=16) as (r, c, n):
                    ring[n].acquire()
                    T.copy(A[r, c], a.slot(n), loader="tma", signal=ring[n])
            with roles.consumer() as w:
                with T.tile_loop(
                    (M, M, N),
                    tile=(1, 64, 256),
                    raster="hilbert",
                    group=1,
                    reversed=True,
                    share=(w, 2),
                ) as (batch, i, j, o):
                    ring[o].wait()
                    with T.turn(order, w):
                        ring[o].release()
                    order.enter(w)
                    T.op(hw.NamedBarrierOp, 1, 128, w)
                    order.leave(w)

    same(
        body,
        """
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, ring 4>
    %ring = gpu.ring consumers 1 : !gpu.ring<4>
    %order = gpu.order_barrier : !gpu.order<2>
    gpu.roles consumers 2 independent registers [24, 240] single_thread producer {
      gpu.tile_loop (%r, %c, %n) = [%M, %N] tile <128, 256> raster "grouped" 16 {
        gpu.ring_acquire %ring[%n] : !gpu.ring<4>
        gpu.copy %A[%r, %c] to %a slot %n loader "tma" signal %ring : !gpu.ring<4> at %n
            : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16, ring 4>
      }
      gpu.yield
    } consumer (%w) {
      gpu.tile_loop (%batch, %i, %j, %o) = [%M, %M, %N] tile <1, 64, 256> raster "hilbert" 1
          reversed share %w of 2 {
        gpu.ring_wait %ring[%o] : !gpu.ring<4>
        gpu.order_enter %order[%w] : !gpu.order<2>
        gpu.ring_release %ring[%o] : !gpu.ring<4>
        gpu.order_leave %order[%w] : !gpu.order<2>
        gpu.order_enter %order[%w] : !gpu.order<2>
        gpu.named_barrier 1 plus %w threads 128
        gpu.order_leave %order[%w] : !gpu.order<2>
      }
      gpu.yield
    }
""",
    )


def test_a_tile_loop_whose_consumers_take_turns() -> None:
    def body(A, X, C, Y) -> None:
        with T.tile_loop((M, N), tile=(64, 256), raster="row", group=1, pingpong=True) as (i, j, n):
            T.barrier()

    same(
        body,
        """
    gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <64, 256> raster "row" 1 pingpong {
      gpu.barrier
    }
""",
    )


def test_a_tile_loop_whose_numbers_go_on() -> None:
    def body(A, X, C, Y) -> None:
        loop = T.tile_loop((M, N), tile=(64, 256), raster="row", group=1, carried=[M])
        with loop as (i, j, n, so_far):
            more = so_far + i
            loop.carry(more)
        (rows,) = loop.results
        with T.when(rows < N):
            T.barrier()

    same(
        body,
        """
    %rows = gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <64, 256> raster "row" 1
        iter_args(%so_far = %M) -> (index) {
      %more = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%so_far, %i)
      gpu.yield %more : index
    }
    %0 = arith.cmpi slt, %rows, %N : index
    scf.if %0 {
      gpu.barrier
    }
""",
    )


def test_who_and_where() -> None:
    def body(A, X, C, Y) -> None:
        thread = T.thread_id()
        rank = T.cluster_rank()
        grid = T.grid_size()
        T.cp_async_commit()
        T.cp_async_wait(2)
        T.barrier()
        T.cluster_barrier()
        both = T.op(arith.AddiOp, thread, rank)
        T.op(hw.NamedBarrierOp, 1, 128, offset=both)

    same(
        body,
        """
    %thread = gpu.thread_id
    %rank = gpu.cluster_rank
    %grid = gpu.grid_size
    gpu.cp_async_commit
    gpu.cp_async_wait 2
    gpu.barrier
    gpu.cluster_barrier
    %both = arith.addi %thread, %rank : index
    gpu.named_barrier 1 plus %both threads 128
""",
        cluster=2,
    )


def test_names_and_elements_that_are_indices() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        limit = T.alloc_fragment((64,), T.index)
        for n in range(2):
            T.name(K + n, f"k{n}")
        T.name(T.const(2.0, T.f32), "two")
        with T.parallel(limit) as (i,):
            limit[i] = T.min(i, K)
        with T.parallel(f) as (i, j):
            x = f[i, j]
            last = limit[i]
            f[i, j] = T.select(j < last, x, 0)

    same(
        body,
        """
    %f = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %limit = gpu.fragment : !gpu.fragment<[64], index>
    %k1 = affine.apply affine_map<()[k] -> (k + 1)> ()[%K]
    %two = arith.constant 2.0 : f32
    gpu.map %limit : !gpu.fragment<[64], index> origin [] ins()
        outs(%limit : !gpu.fragment<[64], index> affine_map<(i) -> (i)>) {
    ^bb0(%0: index):
      %i = gpu.tile_index 0
      %1 = arith.minsi %i, %K : index
      gpu.yield %1 : index
    }
    gpu.map %f : !gpu.fragment<[64, 64], f32> origin []
        ins(%limit : !gpu.fragment<[64], index> affine_map<(i, j) -> (i)>)
        outs(%f : !gpu.fragment<[64, 64], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%x: f32, %last: index):
      %j = gpu.tile_index 1
      %2 = arith.cmpi slt, %j, %last : index
      %3 = arith.constant 0.0 : f32
      %4 = arith.select %2, %x, %3 : f32
      gpu.yield %4 : f32
    }
""",
    )


def test_tile_index_as_an_op() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f) as (i, j):
            k = T.tile_index(1)
            f[i, j] = T.cast(k + i, T.f32)

    text = str(program(body))
    assert "%k = gpu.tile_index 1" in text and "(%k, %i)" in text


# Modules -------------------------------------------------------------------------------


def test_a_module_with_sequences_and_workspaces() -> None:
    @T.program(arch="sm_90a", assume="K mod 8 == 0, K >= 1")
    def split(
        A: T.Tensor[M, K, T.f16, T.align(16), T.attributes(role="param")], C: T.Out[M, N, T.f32]
    ):
        with T.sequence("split_k", when="N mod 8 == 0", align=[16, 4]):
            partial = T.workspace("partial", (2, M, N), T.f32)
            count = T.workspace("count", (T.ceildiv(M, 128),), T.i32, zeroed=True)
            with T.kernel("part", threads=128, grid=[2, T.ceildiv(M, 64) * N], persistent=True):
                f = T.alloc_fragment((64, 64), T.f32)
                T.copy(A[0, 0], T.alloc_shared((64, 64), T.f16))
                T.copy(f, partial[T.block_id(), 0, 0])
            with T.kernel("sum", threads=256, grid=[M], binds=[partial, count, C, N, M]):
                f = T.alloc_fragment((1, 64), T.f32)
                T.copy(partial[0, T.block_id(), 0], f)
                T.copy(f, C[0, 0])
        with T.kernel("plain", threads=128, grid=["M"], blocks_per_sm=2, cluster=2) as plain:
            T.copy(T.alloc_fragment((64,), T.f32), C[T.block_id(), 0])
        T.launch(plain, grid=[2 * M], when="M >= 4", align=(4, 4), persistent=True)

    wanted = """
gpu.module @split arch "sm_90a" symbols [M, K, N] assuming (K mod 8 == 0, K >= 1) {
  gpu.kernel @part(%A: !gpu.global<[M, K], f16, align 16> = tensor 0,
      %partial: !gpu.global<[2, M, N], f32> = workspace "partial",
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %0 = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %1 = arith.constant 0 : index
    gpu.copy %A[%1, %1] to %0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
    %2 = gpu.block_id
    gpu.copy %f to %partial[%2, %1, %1] : !gpu.fragment<[64, 64], f32>, !gpu.global<[2, M, N], f32>
    gpu.return
  }
  gpu.kernel @sum(%partial: !gpu.global<[2, M, N], f32> = workspace "partial",
      %count: !gpu.global<[(M + 127) floordiv 128], i32> = workspace "count",
      %C: !gpu.global<[M, N], f32> = tensor 1, %N: index = symbol N, %M: index = symbol M)
      threads 256 {
    %f = gpu.fragment : !gpu.fragment<[1, 64], f32>
    %0 = gpu.block_id
    %1 = arith.constant 0 : index
    gpu.copy %partial[%1, %0, %1] to %f : !gpu.global<[2, M, N], f32>, !gpu.fragment<[1, 64], f32>
    gpu.copy %f to %C[%1, %1] : !gpu.fragment<[1, 64], f32>, !gpu.global<[M, N], f32>
    gpu.return
  }
  gpu.kernel @plain(%C: !gpu.global<[M, N], f32> = tensor 1,
      %M: index = symbol M, %N: index = symbol N) threads 128 blocks_per_sm 2 cluster 2 {
    %0 = gpu.fragment : !gpu.fragment<[64], f32>
    %1 = gpu.block_id
    %2 = arith.constant 0 : index
    gpu.copy %0 to %C[%1, %2] : !gpu.fragment<[64], f32>, !gpu.global<[M, N], f32>
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16, align 16> {role = "param"})
      -> (C: !gpu.global<[M, N], f32>) {
    gpu.sequence @split_k when (N mod 8 == 0) align [16, 4] {
      gpu.workspace "partial" : !gpu.global<[2, M, N], f32>
      gpu.workspace "count" zeroed : !gpu.global<[(M + 127) floordiv 128], i32>
      gpu.launch @part grid [2, (M + 63) floordiv 64 * N] persistent
      gpu.launch @sum grid [M]
    }
    gpu.launch @plain align [16, 16] grid [M]
    gpu.launch @plain when (M >= 4) align [4, 4] grid [2 * M] persistent
  }
}
"""
    module = parse_text(make_context(), wanted, "wanted.mlir")
    assert module_text(split.module()) == module_text(module)
    assert str(split) + "\n" == module_text(module)


def test_a_program_is_built_once_and_again_the_same() -> None:
    def body(A, X, C, Y) -> None:
        T.barrier()

    one, other = program(body), program(body)
    assert one.module() is one.module()
    assert str(one) == str(other)


def test_shapes_give_sizes() -> None:
    def body(A, X, C, Y) -> None:
        rows, columns = A.shape
        assert (str(rows), str(columns)) == ("M", "K")
        assert A.dtype == T.f16
        with T.serial(rows - 1):
            T.barrier()

    assert "affine_map<()[s0] -> ((s0 + -1))> ()[%M]" in str(program(body))


def test_the_text_of_python_parameters() -> None:
    """Tile sizes are Python's: one function makes many programs."""

    def gemm(width: int) -> T.Program:
        def body(A, X, C, Y) -> None:
            T.alloc_fragment((64, width), T.f32)

        return program(body)

    assert "[64, 32]" in str(gemm(32)) and "[64, 96]" in str(gemm(96))


# Locations -----------------------------------------------------------------------------


def line_of(word: str) -> int:
    """The line of this file that ends in the comment ``# word``."""
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        if line.endswith(f"# {word}"):
            return number
    raise AssertionError(word)


def test_every_op_has_the_users_line() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)  # at-fragment
        row = T.block_id() * 64  # at-row
        with T.pipelined(K, step=64, stages=2) as (k, i):  # at-pipeline
            T.copy(  # at-copy
                A[row, k],
                T.alloc_shared((64, 64), T.f16),  # at-shared
            )
        with T.parallel(f) as (i, j):  # at-map
            x = f[i, j]
            y = x + 1  # at-add
            f[i, j] = y

    module = program(body).module()
    lines = {
        "gpu.fragment": "fragment",
        "affine.apply": "row",
        "gpu.block_id": "row",
        "gpu.pipeline": "pipeline",
        "gpu.copy": "copy",
        "gpu.shared_tile": "shared",
        "gpu.map": "map",
        "gpu.yield": "map",
        "arith.addf": "add",
        "arith.constant": "add",
    }
    seen: set[str] = set()
    for op in module.walk():
        place = place_of(op)
        assert place is not None and place.file == HERE, op.name
        assert isinstance(op.location, FileLineColLoc) or op.name == "gpu.yield"
        if op.name in lines and isinstance(op.location, FileLineColLoc):
            if op.name == "gpu.yield" and not op.operands:
                continue
            assert place.line == line_of(f"at-{lines[op.name]}"), op.name
            seen.add(op.name)
    assert seen == set(lines)
    columns = [
        op.location.column.data
        for op in module.walk()
        if op.name == "gpu.fragment" and isinstance(op.location, FileLineColLoc)
    ]
    source = Path(__file__).read_text().splitlines()[line_of("at-fragment") - 1]
    assert columns == [source.index("T.alloc_fragment") + 1]


# Refusals ------------------------------------------------------------------------------


def refused(body: Body, kind: str, part: str, cluster: int = 1) -> None:
    """Building refuses with this kind and sentence, at the body's line marked ``# here``."""
    with pytest.raises(PolycError) as found:
        program(body, cluster=cluster).module()
    error = found.value
    assert (error.kind, part in error.message) == (kind, True), str(error)
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert error.place is not None and error.place.file == HERE
    assert [error.place.line] == marked, str(error)


def test_unknown_dtype() -> None:
    def body(A, X, C, Y) -> None:
        T.alloc_fragment((64, 64), "f64")  # here

    refused(body, "UnknownType", "'f64' is no element type")


def test_symbolic_tile() -> None:
    def body(A, X, C, Y) -> None:
        T.alloc_shared((M, 64), T.f16)  # here

    refused(body, "WrongShape", "positive numbers that are known here, not M")


def test_swizzle_that_does_not_fit() -> None:
    def body(A, X, C, Y) -> None:
        T.alloc_shared((64, 24), T.f16, swizzle=128)  # here

    refused(body, "InvalidIR", "rows of 48 bytes do not split into panels of 128 bytes")


def test_wrong_number_of_coordinates() -> None:
    def body(A, X, C, Y) -> None:
        T.copy(A[M], T.alloc_shared((64, 64), T.f16))  # here

    refused(body, "WrongRank", "A, a tensor !gpu.global<[M, K], f16>, has 2 coordinates, not 1")


def test_copy_of_other_elements() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        T.copy(A[0, 0], f)  # here

    refused(body, "InvalidIR", "a copy does not convert")


def test_copy_of_something_else() -> None:
    def body(A, X, C, Y) -> None:
        T.copy(A[0, 0], 3)  # here

    refused(body, "NotATile", "3 is neither a place in a tensor")


def test_window_of_another_size() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 256), T.f16)
        c = T.alloc_shared((64, 32), T.f16)
        T.copy(f[:, 0:64], c)  # here

    refused(body, "WrongShape", "a part of [64, 64] is not copied to or from")


def test_window_outside() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 256), T.f16)
        f[:, 250:260]  # here

    refused(body, "OutOfBounds", "250:260 is no part of an axis of 256")


def test_element_outside_of_parallel() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 256), T.f16)
        f[0, 0] = 1  # here

    refused(body, "NotScalar", "in the body of T.parallel")


def test_gemm_of_wrong_shapes() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((128, 64), T.f16)
        b = T.alloc_shared((256, 64), T.f16)
        T.gemm(a, b, T.alloc_fragment((128, 256), T.f32))  # here

    refused(body, "WrongShape", "[128, 64] times [256, 64] does not add to [128, 256]; transpose_b")


def test_gemm_of_wrong_elements() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((128, 64), T.f32)
        b = T.alloc_shared((64, 256), T.f16)
        acc = T.alloc_fragment((128, 256), T.f32)
        T.gemm(a, b, acc)  # here

    refused(body, "InvalidIR", "operands are both f16 or both bf16, not f32 and f16")


def test_gemm_that_does_not_split() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((48, 64), T.f16)
        b = T.alloc_shared((64, 16), T.f16)
        acc = T.alloc_fragment((48, 16), T.f32)
        T.gemm(a, b, acc)  # here

    refused(body, "WrongShape", "a tile of 48x16 does not split among 12 warps")


def test_reduction_along_no_axis() -> None:
    def body(A, X, C, Y) -> None:
        s, m = T.alloc_fragment((64, 64), T.f32), T.alloc_fragment((64,), T.f32)
        T.reduce("max", s, m, axis=2)  # here

    refused(body, "WrongRank", "has no axis 2")


def test_reduction_of_another_kind() -> None:
    def body(A, X, C, Y) -> None:
        s, m = T.alloc_fragment((64, 64), T.f32), T.alloc_fragment((64,), T.f32)
        T.reduce("mean", s, m)  # here

    refused(body, "InvalidIR", 'a reduction is sum, prod, max, min, not "mean"')


def test_any_of_what_are_no_conditions() -> None:
    def body(A, X, C, Y) -> None:
        T.any(T.alloc_fragment((64, 64), T.f32))  # here

    refused(body, "InvalidIR", "asks of conditions (i1)")

    def shared(A, X, C, Y) -> None:
        T.any(T.alloc_shared((64, 64), T.f16))  # here

    refused(shared, "NotATile", "T.any takes a fragment of conditions")


def test_a_python_condition_on_a_value() -> None:
    def body(A, X, C, Y) -> None:
        if T.block_id() < 3:  # here
            T.barrier()

    refused(body, "TracedCondition", "T.when")


def test_a_python_range_over_a_size() -> None:
    def body(A, X, C, Y) -> None:
        for _ in range(M):  # here
            T.barrier()

    refused(body, "TracedNumber", "T.serial")


def test_a_value_that_left_its_loop() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        with T.serial(K) as i:
            at = i + 1
        T.copy(f, C[at, 0])  # here

    refused(body, "OutOfScope", "%at was made in a kernel or region that is closed")


def test_an_axis_that_left_its_parallel() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        with T.parallel(f) as (i, j):
            f[i, j] = 1
        T.copy(f, C[i, 0])  # here

    refused(body, "OutOfScope", "an axis of T.parallel is known in its body only")


def test_a_value_of_another_role() -> None:
    def body(A, X, C, Y) -> None:
        with T.roles(consumers=2) as roles:
            with roles.producer():
                n = T.block_id()
            with roles.consumer(), T.serial(n):  # here
                T.barrier()

    refused(body, "OutOfScope", "%n was made")


def test_a_tile_of_another_kernel() -> None:
    with pytest.raises(PolycError, match="OutOfScope") as found:

        @T.program()
        def built(A: T.Tensor[M, K, T.f16], C: T.Out[M, K, T.f16]) -> None:
            with T.kernel("one", threads=128, grid=[1]):
                a = T.alloc_shared((64, 64), T.f16)
                T.copy(A[0, 0], a)
            with T.kernel("two", threads=128, grid=[1]):
                T.copy(a, C[0, 0])  # other-kernel

        built.module()
    assert found.value.place is not None and found.value.place.line == line_of("other-kernel")
    assert "%a was made" in found.value.message


def test_a_tensor_of_another_program() -> None:
    kept: list[T.Tensor] = []

    def first(A, X, C, Y) -> None:
        kept.append(A)
        T.barrier()

    def body(A, X, C, Y) -> None:
        T.copy(kept[0][0, 0], T.alloc_shared((64, 64), T.f16))  # here

    program(first).module()
    refused(body, "OutOfScope", "A is no tensor of kernel k")


def test_tile_ops_in_parallel() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f):
            T.clear(f)  # here

    refused(body, "NotScalar", "gpu.fill works on whole tiles")

    def shared(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f):
            T.alloc_shared((64, 64), T.f16)  # here

    refused(shared, "NotScalar", "gpu.shared_tile works on whole tiles")


def test_parallel_that_writes_nothing() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f) as (i, j):  # here
            f[i, j] + 1

    refused(body, "NoResult", "writes nothing")


def test_parallel_without_a_fragment() -> None:
    def body(A, X, C, Y) -> None:
        with T.parallel(64, 64) as (i, j):  # here
            C[i, j] = A[i, j]

    refused(body, "NoFragment", "touches no fragment of its sizes")


def test_parallel_that_reads_what_it_wrote() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f) as (i, j):
            f[i, j] = 2
            f[i, j] = f[i, j + 1]  # here

    refused(body, "ReadAfterWrite", "another element")

    def turned(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        with T.parallel(f) as (i, j):
            C[i, j] = C[j, i]  # here

    refused(turned, "ReadAfterWrite", "the body writes what it reads for another element")


def test_parallel_that_writes_elsewhere() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f) as (i, j):
            f[j, i] = 2  # here

    refused(body, "NotWritten", "the element's own place")


def test_parallel_that_writes_a_shared_tile() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        s = T.alloc_shared((64, 64), T.f16)
        with T.parallel(f) as (i, j):
            s[i, j] = f[i, j]  # here

    refused(body, "NotWritten", "T.copy takes a fragment to shared memory")


def test_parallel_place_that_is_not_affine() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        with T.parallel(f) as (i, j):
            f[i, j] = A[i * j, 0]  # here

    refused(body, "NotAffine", "this one is computed in the body")


def test_an_index_among_elements() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f32)
        with T.parallel(f) as (i, j):
            f[i, j] = f[i, j] + j  # here

    refused(body, "MixedNumbers", "T.cast")


def test_elements_of_two_types() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64,), T.f32)
        n = T.alloc_fragment((64,), T.i32)
        with T.parallel(f) as (i,):
            f[i] = f[i] + n[i]  # here

    refused(body, "MixedNumbers", "f32 and i32 do not mix")


def test_a_loop_that_is_left() -> None:
    def body(A, X, C, Y) -> None:
        with T.when(T.block_id() < 3):  # here
            for _ in T.serial(K):
                T.barrier()
                break

    refused(body, "LeftByJump", "was left by break or return")


def test_arguments_that_are_missing_or_of_a_wrong_kind() -> None:
    def body(A, X, C, Y) -> None:
        T.gemm(T.alloc_shared((64, 64), T.f16))  # here

    refused(body, "BadArgument", "gemm is given what it does not take: gemm() missing 2 required")

    def window(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 256), T.f16)
        T.copy(f, T.alloc_shared((64, 64), T.f16), window=("a", "b"))  # here

    refused(window, "BadArgument", "copy is given what it does not take")

    def by(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 256), T.f32)
        T.reduce("sum", f, T.alloc_fragment(64, T.f32), by=lambda i, j: i * j)  # here

    refused(by, "BadArgument", "reduce is given what it does not take")


def test_a_loop_that_does_not_carry() -> None:
    def body(A, X, C, Y) -> None:
        loop = T.serial(K, carried=[0])  # here
        with loop as (i, at):
            T.barrier()

    refused(body, "WrongCarry", "loop.carry")


def test_a_loop_that_carries_another_type() -> None:
    def body(A, X, C, Y) -> None:
        loop = T.serial(K, carried=[0])
        with loop as (i, at):
            loop.carry(1.5)  # here

    refused(body, "WrongCarry", "a carried index does not become a f32")


def test_a_condition_that_is_none() -> None:
    def body(A, X, C, Y) -> None:
        with T.when(True):  # here
            T.barrier()

    refused(body, "NotACondition", "a comparison of values of the kernel")


def test_branches_that_differ() -> None:
    def body(A, X, C, Y) -> None:
        choice = T.when(T.block_id() < 1)
        with choice:
            choice.give(1)
        with choice.otherwise():  # here
            choice.give(1, 2)

    refused(body, "WrongCarry", "the branches give 1 and 2 values")


def test_roles_without_a_consumer() -> None:
    def body(A, X, C, Y) -> None:
        with T.roles(consumers=2) as roles:  # here
            with roles.producer():
                T.block_id()

    refused(body, "NoRole", "T.roles has no consumer")


def test_work_between_roles() -> None:
    def body(A, X, C, Y) -> None:
        with T.roles(consumers=2):
            T.barrier()  # here

    refused(body, "NoRole", "stands between the roles")


def test_registers_that_are_no_budget() -> None:
    def body(A, X, C, Y) -> None:
        with T.roles(consumers=2, registers=(23, 240)) as roles:  # here
            with roles.producer():
                T.block_id()
            with roles.consumer():
                T.block_id()

    refused(body, "InvalidIR", "a register budget is 24 to 256 in steps of 8, or 0, not 23")


def test_too_deep_a_ring() -> None:
    def body(A, X, C, Y) -> None:
        T.ring(9, consumers=1)  # here

    refused(body, "InvalidIR", "a ring has 1 to 8 slots, not 9")


def test_a_wait_for_no_token() -> None:
    def body(A, X, C, Y) -> None:
        a = T.alloc_shared((64, 64), T.f16)
        done = T.copy(A[0, 0], a)
        T.await_(done)  # here

    refused(body, "NotAToken", "None is no token")


def test_a_division_by_zero() -> None:
    def body(A, X, C, Y) -> None:
        T.block_id() // 0  # here

    refused(body, "NotAnIndex", "an index is divided by a positive number, not by 0")


def test_a_fraction_of_a_size() -> None:
    def body(A, X, C, Y) -> None:
        T.alloc_fragment((M / 2, 64), T.f16)  # here

    refused(body, "NotAnIndex", "divide by //")


def test_a_size_that_is_no_expression() -> None:
    def body(A, X, C, Y) -> None:
        T.block_id() + "M +"  # here

    refused(body, "InvalidText", "[M +] is not understood")


def test_an_unknown_size() -> None:
    def body(A, X, C, Y) -> None:
        with T.serial(B):  # here
            T.barrier()

    refused(body, "UnknownSize", "kernel k has no size B; it has M, K, N")


def test_a_kernel_in_a_kernel() -> None:
    def body(A, X, C, Y) -> None:
        with T.kernel("inner", threads=128):  # here
            T.barrier()

    refused(body, "NestedKernel", "kernel inner stands in kernel k")


def test_a_grid_of_values() -> None:
    def body(A, X, C, Y) -> None:
        T.kernel("inner", threads=128, grid=[T.block_id()])  # here

    refused(body, "NotASize", "the host computes shapes and grids")


def refused_program(make: Callable[[], T.Program], kind: str, part: str, at: str) -> None:
    with pytest.raises(PolycError) as found:
        make().module()
    error = found.value
    assert (error.kind, part in error.message) == (kind, True), str(error)
    assert error.place is not None and error.place.line == line_of(at), str(error)


def test_programs_that_are_refused() -> None:
    def arch() -> T.Program:
        @T.program(arch="sm_70")  # arch
        def built(A: T.Tensor[M, T.f16]) -> None: ...

        return built

    def untyped() -> T.Program:
        @T.program()  # untyped
        def built(A) -> None: ...

        return built

    def no_kernel() -> T.Program:
        @T.program()  # no-kernel
        def built(A: T.Tensor[M, T.f16]) -> None: ...

        return built

    def twice() -> T.Program:
        @T.program()
        def built(A: T.Tensor[M, T.f16], C: T.Out[M, T.f16]) -> None:
            with T.kernel("k", threads=128, grid=[1]):
                T.barrier()
            with T.kernel("k", threads=128, grid=[1]):  # twice
                T.barrier()

        return built

    def threads() -> T.Program:
        @T.program()
        def built(A: T.Tensor[M, T.f16], C: T.Out[M, T.f16]) -> None:
            with T.kernel("k", threads=100, grid=[1]):  # threads
                T.barrier()

        return built

    def condition() -> T.Program:
        @T.program()
        def built(A: T.Tensor[M, T.f16], C: T.Out[M, T.f16]) -> None:
            with T.kernel("k", threads=128, grid=[1], when="M mod"):  # condition
                T.barrier()

        return built

    def dtype() -> T.Program:
        @T.program()  # dtype
        def built(A: T.Tensor[M, NO_TYPE]) -> None: ...

        return built

    def names() -> T.Program:
        @T.program()
        def built(A: T.Tensor[M, T.f16], C: T.Out[M, T.f16]) -> None:
            with T.kernel("k", threads=128, grid=[1], when="Q >= 1"):  # names
                T.barrier()

        return built

    def workspace() -> T.Program:
        @T.program()
        def built(A: T.Tensor[M, T.f16], C: T.Out[M, T.f16]) -> None:
            T.workspace("w", (M,), T.f32)  # workspace

        return built

    refused_program(arch, "UnknownArch", 'not "sm_70"', "arch")
    refused_program(untyped, "UnknownType", "annotate it with T.Tensor", "untyped")
    refused_program(no_kernel, "NoKernel", "program built has no kernel", "no-kernel")
    refused_program(twice, "NameTaken", "there is another kernel k", "twice")
    refused_program(threads, "InvalidIR", "32 to 1024 threads in whole warps, not 100", "threads")
    refused_program(condition, "InvalidText", "(M mod) is not understood", "condition")
    refused_program(dtype, "UnknownType", "'f99' is no element type", "dtype")
    refused_program(names, "InvalidIR", "names Q, which is not among the symbols M", "names")
    refused_program(workspace, "NotASequence", "stands under `with T.sequence", "workspace")


def test_what_passes_refuse_is_at_the_authors_line() -> None:
    def large(A, X, C, Y) -> None:
        a = T.alloc_shared((128, 512), T.f16, ring=4)
        f = T.alloc_fragment((128, 512), T.f16)
        T.copy(A[0, 0], a.slot(0))
        T.copy(a.slot(0), f)
        T.copy(f, C[0, 0])

    with pytest.raises(PolycError, match="ResourceExceeded") as found:
        program(large, 128).compile()
    assert found.value.place is not None and found.value.place.file == HERE

    def early(A, X, C, Y) -> None:
        a = T.alloc_shared((64, 64), T.f16)
        acc = T.alloc_fragment((64, 64), T.f32)
        done = T.gemm(a, a, acc, token=True)
        with T.parallel(acc) as (i, j):  # early
            Y[i, j] = acc[i, j]
        T.await_(done)

    with pytest.raises(PolycError, match="AccumulatorInFlight") as found:
        program(early, 128).compile()
    assert found.value.place is not None and found.value.place.line == line_of("early")


def test_outside_of_everything() -> None:
    with pytest.raises(PolycError, match="NoProgram"):
        T.alloc_fragment((64, 64), T.f32)
    with pytest.raises(PolycError, match="UnknownType"):
        T.Tensor[M, "f99"]


def test_a_refused_program_can_be_built_again() -> None:
    """An error leaves no open kernel behind."""
    wrong = [True]

    def body(A, X, C, Y) -> None:
        with T.serial(K):
            if wrong[0]:
                T.alloc_fragment((), T.f32)
            T.barrier()

    built = program(body)
    with pytest.raises(PolycError):
        built.module()
    wrong[0] = False
    assert "gpu.barrier" in str(built)


# Twins ---------------------------------------------------------------------------------

EXAMPLES = ROOT / "examples" / "tile"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_twins_of_texts(name: str) -> None:
    """The programs of an example in Python build the bytes that their texts print as."""
    scope = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    programs = [p for p in scope.values() if isinstance(p, T.Program)]
    assert name in [p.name for p in programs]
    for built in programs:
        verify(built.module())
        text = EXAMPLES / f"{built.name}.mlir"
        wanted = parse_text(make_context(), text.read_text(encoding="utf-8"), text.name)
        assert module_text(built.module()) == module_text(wanted)
        assert built.module().is_structurally_equivalent(wanted)


def test_every_text_has_its_twin() -> None:
    twins: set[str] = set()
    for path in EXAMPLES.glob("*.py"):
        scope = runpy.run_path(str(path))
        twins |= {p.name for p in scope.values() if isinstance(p, T.Program)}
    assert twins == {path.stem for path in EXAMPLES.glob("*.mlir")}
