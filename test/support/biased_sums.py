"""A kernel of products to which a step adds what it reads, for tests of passes over such reads."""

from __future__ import annotations

ACC = "!gpu.fragment<[64, 32], f32>"
HELD = "!gpu.shared<[64, 32], f16>", "!gpu.shared<[32, 32], f16>"
VECTOR, MATRIX = "!gpu.global<[N], f32>", "!gpu.global<[64, N], f32>"


def biased(
    where: str = "(i, j)[s] -> (j + s)",
    *,
    source: str = f"%v : {VECTOR}",
    origin: str = "%k",
    outs: str = "",
    value: str = "",
    at: str = "each step",
) -> str:
    """The sum of tiles of A · Bᵀ + what is read at ``where``, over blocks of B.

    It is added ``at`` each step, at the end to the sum of the tiles, or to one tile without a loop.
    """
    product = f"""
  gpu.copy %B[%k, %c0] to %b loader "register" : !gpu.global<[N, 32], f16>, {HELD[1]}
  gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
      into %s {"" if at == "the end" else "clear "}mma "mma.sync" warp_tile <16, 32>
      : {HELD[0]}, {HELD[1]}, {ACC}"""
    ending = f"""
  gpu.map %s : {ACC} origin [{origin}]
      ins({source} affine_map<{where}>)
      outs(%s : {ACC} affine_map<(i, j)[s] -> (i, j)>{outs}) {{
  ^bb0(%x: f32, %y: f32):
    %t = arith.addf %x, %y : f32
    gpu.yield %t{value}
  }}
  gpu.reduce sum %s by affine_map<(i, j) -> (i)> into %l accumulate
      : {ACC}, !gpu.fragment<[64], f32>"""
    walk = {
        "each step": "gpu.pipeline %k, %i = to %N step 32 stages 2 {" + product + ending + "}",
        "the end": f"""
    gpu.fill %zero, %s : {ACC}
    gpu.pipeline %k, %i = to %N step 32 stages 2 {{ {product} }}
    {ending.replace("%k", "%c0")}""",
        "once": "%k = arith.constant 0 : index\n" + product + ending,
    }[at]
    return f"""
gpu.module @m arch "sm_80" symbols [N] {{
  gpu.kernel @k(%A: !gpu.global<[64, 32], f16> = tensor 0, %B: !gpu.global<[N, 32], f16> = tensor 1,
      %v: {VECTOR} = tensor 2, %w: {MATRIX} = tensor 3, %O: !gpu.global<[64], f32> = tensor 4,
      %N: index = symbol N) threads 128 {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : {HELD[0]}
    %b = gpu.shared_tile : {HELD[1]}
    %s = gpu.fragment : {ACC}
    %l = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.fill %zero, %l : !gpu.fragment<[64], f32>
    gpu.copy %A[%c0, %c0] to %a loader "register" : !gpu.global<[64, 32], f16>, {HELD[0]}
    {walk}
    gpu.map %l : !gpu.fragment<[64], f32> origin []
        ins() outs(%O : !gpu.global<[64], f32> affine_map<(i) -> (i)>) {{
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }}
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[64, 32], f16>, B: !gpu.global<[N, 32], f16>, v: {VECTOR},
      w: {MATRIX}) -> (O: !gpu.global<[64], f32>) {{
    gpu.launch @k when (N >= 1) align [16, 16, 16, 16, 16] grid [1]
  }}
}}
""".replace("gpu.yield %t\n", "gpu.yield %t : f32\n")
