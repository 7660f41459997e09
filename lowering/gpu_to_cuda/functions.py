"""The printer's device functions that are one text each, by name.

Sources: PTX ISA sections 9.7.9 (data movement, cp.async, TMA, ldmatrix), 9.7.13 (barriers,
mbarrier), 9.7.15 (mma), 9.7.20 (setmaxnreg).
"""

from __future__ import annotations

from functools import cache

from polyc.dialects.gpu.types import CACHE_HINTS
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, device_function

_TRY_WAIT = """{
.reg .pred done;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;
@done bra DONE;
bra WAIT;
DONE:
}"""

_ELECT = """{
.reg .pred p;
elect.sync _|p, 0xffffffff;
selp.b32 %0, 1, 0, p;
}"""

_WINDOW = """{
.reg .u64 window;
cvta.to.shared.u64 window, %1;
cvt.u32.u64 %0, window;
}"""


def _fixed() -> list[DeviceFunction]:
    u32 = '"r"(address)'
    barrier = '"r"(barrier)'
    return [
        device_function(
            "u32 shared_window(const void* pointer)",
            "u32 address;\n"
            + asm(_WINDOW, '"=r"(address)', '"l"(pointer)', volatile=False, memory=False)
            + "\nreturn address;",
        ),
        device_function(
            "bool elect()",
            "u32 chosen;\n" + asm(_ELECT, '"=r"(chosen)', memory=False) + "\nreturn chosen;",
        ),
        # cp.async: with a false predicate nothing is read and zeros arrive.
        *(
            device_function(
                f"void cp_async_{n}(u32 address, const void* source)",
                asm(
                    f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n};",
                    ins=f'{u32}, "l"(source)',
                ),
            )
            for n in (4, 8, 16)
        ),
        *(
            device_function(
                f"void cp_async_{n}_if(u32 address, const void* source, bool valid)",
                asm(
                    f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n}, %2;",
                    ins=f'{u32}, "l"(source), "r"(valid ? {n} : 0)',
                ),
            )
            for n in (4, 8, 16)
        ),
        device_function("void cp_async_commit()", asm("cp.async.commit_group;")),
        device_function(
            "void cp_async_wait()",
            asm("cp.async.wait_group %0;", ins='"n"(pending)'),
            "int pending",
        ),
        device_function(
            "void named_barrier()",
            asm("bar.sync %0, %1;", ins='"n"(id), "n"(threads)'),
            "int id, int threads",
        ),
        device_function(
            "void named_barrier_at(u32 id)",
            asm("bar.sync %0, %1;", ins='"r"(id), "n"(threads)'),
            "int threads",
        ),
        device_function(
            "void named_barrier_arrive(u32 id)",
            asm("bar.arrive %0, %1;", ins='"r"(id), "n"(threads)'),
            "int threads",
        ),
        device_function(
            "void mbarrier_init(u32 barrier, u32 count)",
            asm("mbarrier.init.shared::cta.b64 [%0], %1;", ins=f'{barrier}, "r"(count)'),
        ),
        device_function(
            "void mbarrier_expect(u32 barrier, u32 bytes)",
            asm(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
                ins=f'{barrier}, "r"(bytes)',
            ),
        ),
        device_function(
            "void mbarrier_announce(u32 barrier, u32 bytes)",
            asm(
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
                ins=f'{barrier}, "r"(bytes)',
            ),
        ),
        device_function(
            "void mbarrier_arrive(u32 barrier)",
            asm("mbarrier.arrive.shared::cta.b64 _, [%0];", ins=barrier),
        ),
        device_function(
            "void mbarrier_wait(u32 barrier, u32 parity)",
            asm(_TRY_WAIT, ins=f'{barrier}, "r"(parity)'),
        ),
        device_function(
            "void fence_mbarrier_init()",
            asm("fence.mbarrier_init.release.cluster;"),
        ),
        device_function("void fence_proxy_async()", asm("fence.proxy.async.shared::cta;")),
        *(
            device_function(
                f"void {word}_registers()",
                asm(f"setmaxnreg.{short}.sync.aligned.u32 %0;", ins='"n"(count)', memory=False),
                "int count",
            )
            for word, short in (("increase", "inc"), ("decrease", "dec"))
        ),
        device_function(
            "void prefetch_tensor_map(const TensorMap* map)",
            asm("prefetch.tensormap [%0];", ins='"l"(map)'),
        ),
        *(
            _tma_load(rank, several, hint)
            for rank in range(1, 6)
            for several in (False, True)
            for hint in ("", *CACHE_HINTS)
        ),
        device_function(
            "void tma_load_im2col(u32 address, const TensorMap* map, u32 barrier, "
            "int c, int w, int h, int n, int s, int r)",
            asm(
                "cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};",
                ins='"r"(address), "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), '
                '"h"((u16)s), "h"((u16)r)',
            ),
        ),
        *(
            device_function(
                f"void ldmatrix_x4{suffix}(u32* r, u32 address)",
                asm(
                    f"ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%0, %1, %2, %3}}, [%4];",
                    ", ".join(f'"=r"(r[{i}])' for i in range(4)),
                    u32,
                ),
            )
            for suffix, word in (("", ""), ("_transposed", ".trans"))
        ),
        *(
            device_function(
                f"void stmatrix_x4{suffix}(u32 address, const u32* r)",
                asm(
                    f"stmatrix.sync.aligned.m8n8.x4{word}.shared.b16 [%0], {{%1, %2, %3, %4}};",
                    ins=", ".join([u32, *(f'"r"(r[{i}])' for i in range(4))]),
                ),
            )
            for suffix, word in (("", ""), ("_transposed", ".trans"))
        ),
        *(_tma_store(rank) for rank in range(1, 6)),
        device_function(
            "void signal_global(void* pointer)",
            asm("red.release.gpu.global.add.u32 [%0], 1;", ins='"l"(pointer)'),
        ),
        device_function(
            "void wait_global(const void* pointer, int count)",
            "int seen;\ndo {\n"
            + asm("ld.acquire.gpu.global.s32 %0, [%1];", '"=r"(seen)', '"l"(pointer)')
            + "\n} while (seen < count);",
        ),
        device_function(
            "int cluster_rank()",
            "u32 r;\n"
            + asm("mov.u32 %0, %%cluster_ctarank;", '"=r"(r)', volatile=False, memory=False)
            + "\nreturn (int)r;",
        ),
        device_function("void let_next_launch_begin()", asm("griddepcontrol.launch_dependents;")),
        device_function("void wait_for_launch_before()", asm("griddepcontrol.wait;")),
        device_function(
            "void cluster_barrier()",
            asm("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"),
        ),
        device_function(
            "u32 map_shared(u32 address, u32 rank)",
            "u32 r;\n"
            + asm(
                "mapa.shared::cluster.u32 %0, %1, %2;",
                '"=r"(r)',
                f'{u32}, "r"(rank)',
                volatile=False,
                memory=False,
            )
            + "\nreturn r;",
        ),
        # The short form makes no fence over the cluster, which a ring would pay every stage.
        *(
            device_function(
                f"void mbarrier_arrive_cluster{suffix}(u32 barrier, u32 rank)",
                asm(
                    "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                    f"mbarrier.arrive{release}.shared::cluster.b64 _, [remote];\n}}",
                    ins=f'{barrier}, "r"(rank)',
                ),
            )
            for suffix, release in (("", ".release.cluster"), ("_reads", ""))
        ),
        device_function("void bulk_commit()", asm("cp.async.bulk.commit_group;")),
        *(
            device_function(
                f"void bulk_wait{suffix}()",
                asm(f"cp.async.bulk.wait_group{word} %0;", ins='"n"(pending)'),
                "int pending",
            )
            for suffix, word in (("", ""), ("_read", ".read"))
        ),
        *(_mma(element) for element in ("f16", "bf16")),
        # 14 bits each of start address, leading and stride byte offset, in units of 16 bytes.
        device_function(
            "i64 wgmma_descriptor(u32 address, u32 leading, u32 stride, u32 swizzle)",
            "u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16;\n"
            "u32 high = stride >> 4 | swizzle << 30;\n"
            "return (i64)((u64)high << 32 | low);",
        ),
        device_function("void wgmma_fence()", asm("wgmma.fence.sync.aligned;")),
        device_function("void wgmma_commit()", asm("wgmma.commit_group.sync.aligned;")),
        device_function(
            "void wgmma_wait()",
            asm("wgmma.wait_group.sync.aligned %0;", ins='"n"(pending)'),
            "int pending",
        ),
        # Accesses of these registers stay on their side of this line.
        device_function(
            "void register_fence(float (&r)[count])",
            "#pragma unroll\nfor (int i = 0; i < count; ++i)\n"
            '  asm volatile("" : "+f"(r[i]) : : "memory");',
            "int count",
        ),
        *_conversions(),
        *_arithmetic(),
    ]


def _tma_load(rank: int, several: bool, hint: str) -> DeviceFunction:
    names = [f"c{i}" for i in range(rank)]
    places = ", ".join(f"%{3 + i}" for i in range(rank))
    suffix, parameter, word, mask, operand = (
        ("_multicast", ", u32 mask", ".multicast::cluster", f", %{3 + rank}", ', "h"((u16)mask)')
        if several
        else ("", "", "", "", "")
    )
    policy, word_end, end = "", "", ""
    if hint:
        suffix, word_end, mask = f"{suffix}_{hint}", ".L2::cache_hint", f"{mask}, policy"
        policy = f"{{ .reg .b64 policy; createpolicy.fractional.L2::{hint}.b64 policy, 1.0; "
        end = " }"
    return device_function(
        f"void tma_load_{rank}d{suffix}(u32 address, const TensorMap* map, u32 barrier, "
        f"{', '.join(f'int {n}' for n in names)}{parameter})",
        asm(
            f"{policy}cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes{word}{word_end} "
            f"[%0], [%1, {{{places}}}], [%2]{mask};{end}",
            ins='"r"(address), "l"(map), "r"(barrier), '
            + ", ".join(f'"r"({n})' for n in names)
            + operand,
        ),
    )


def _tma_store(rank: int) -> DeviceFunction:
    coordinates = ", ".join(f"%{i + 2}" for i in range(rank))
    names = [f"c{i}" for i in range(rank)]
    return device_function(
        f"void tma_store_{rank}d(u32 address, const TensorMap* map, "
        + ", ".join(f"int {n}" for n in names)
        + ")",
        asm(
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[%1, {{{coordinates}}}], [%0];",
            ins=", ".join(['"r"(address)', '"l"(map)', *(f'"r"({n})' for n in names)]),
        ),
    )


def _mma(element: str) -> DeviceFunction:
    return device_function(
        f"void mma_m16n8k16_{element}(float* d, const u32* a, const u32* b)",
        asm(
            f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};",
            ", ".join(f'"+f"(d[{i}])' for i in range(4)),
            ", ".join([f'"r"(a[{i}])' for i in range(4)] + [f'"r"(b[{i}])' for i in range(2)]),
            memory=False,
        ),
    )


_F = '"=f"(r)'

_ONE_HALF = """{{
.reg .b32 pair;
.reg .b16 high;
cvt.rn.{0}x2.f32 pair, %1, %2;
mov.b32 {{%0, high}}, pair;
}}"""
"""Rounds one f32.  The scalar ``cvt.rn.f16.f32`` is the same machine instruction, but on a
wgmma accumulator it makes ptxas 13 serialise the loop before it (C7514)."""


def _pure(result: str, code: str, outs: str, ins: str) -> str:
    """A body that defines ``r`` by an asm statement without side effects."""
    return f"{result} r;\n{asm(code, outs, ins, volatile=False, memory=False)}\nreturn r;"


def _conversions() -> list[DeviceFunction]:
    found = [
        device_function(
            "float f16_to_f32(f16 x)", _pure("float", "cvt.f32.f16 %0, %1;", _F, '"h"(x)')
        ),
        device_function("float bf16_to_f32(bf16 x)", "return __uint_as_float((u32)x << 16);"),
    ]
    for t in ("f16", "bf16"):
        one = _pure(t, _ONE_HALF.format(t), '"=h"(r)', '"f"(0.0f), "f"(x)')
        two = _pure("u32", f"cvt.rn.{t}x2.f32 %0, %1, %2;", '"=r"(r)', '"f"(high), "f"(low)')
        found.append(device_function(f"{t} f32_to_{t}(float x)", one))
        found.append(device_function(f"u32 f32_to_{t}x2(float low, float high)", two))
    return found


def _arithmetic() -> list[DeviceFunction]:
    found = [
        device_function(
            f"float {name}_nan(float a, float b)",
            _pure("float", f"{name}.NaN.f32 %0, %1, %2;", _F, '"f"(a), "f"(b)'),
        )
        for name in ("max", "min")
    ]
    found.append(
        device_function(
            "float exp2_approx(float x)",
            _pure("float", "ex2.approx.ftz.f32 %0, %1;", _F, '"f"(x)'),
        )
    )
    for t in ("int", "i64"):
        suffix = "" if t == "int" else "_i64"
        found += [
            device_function(
                f"{t} floor_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q - (r != 0 && (r < 0) != (b < 0));",
            ),
            device_function(
                f"{t} ceil_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q + (r != 0 && (r < 0) == (b < 0));",
            ),
            device_function(
                f"{t} floor_mod{suffix}({t} a, {t} b)",
                f"{t} r = a % b;\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
            ),
        ]
    return found


@cache
def functions() -> dict[str, DeviceFunction]:
    """The functions that take no part of their text from a type, by name."""
    return {f.name: f for f in _fixed()}
