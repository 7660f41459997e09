"""C types and device functions of the printer: the only place with inline PTX.

A ``CType`` is how a value's type is spelled.  A ``DeviceFunction`` is one small
``__device__ __forceinline__`` function around one instruction (or around integer
arithmetic that C spells badly); the printer writes only those that a kernel uses.

What the words of a vector are: an element of 4 or 8 bytes is a word of its own, smaller
elements are packed into u32 words (u16 and u8 where the vector is that short), element 0
in the lowest bits.

Sources: PTX ISA sections 9.7.9 (data movement, cp.async, TMA, ldmatrix), 9.7.13 (barriers,
mbarrier), 9.7.15 (mma), 9.7.16 (wgmma), 9.7.20 (setmaxnreg).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IndexType, IntegerType
from xdsl.dialects.builtin import VectorType as XVectorType
from xdsl.ir import Attribute

from polyc.dialects.gpu.types import CACHE_HINTS

TYPEDEFS = {
    "u8": "typedef unsigned char u8;",
    "u16": "typedef unsigned short u16;",
    "u32": "typedef unsigned int u32;",
    "u64": "typedef unsigned long long u64;",
    "i64": "typedef long long i64;",
    "f16": "typedef u16 f16;",
    "bf16": "typedef u16 bf16;",
}
"""Names of scalar types; f16 and bf16 are bits in storage, never operands of C arithmetic."""

TENSOR_MAP = "struct __align__(64) TensorMap {\n  u64 v[16];\n};"


@dataclass(frozen=True, slots=True)
class CType:
    """The C spelling of a type.

    ``word`` is the C type of one register's worth; a scalar is one word of itself.  A
    vector is a struct ``{ word v[words]; }`` with ``lanes`` elements in each word.
    """

    name: str
    word: str
    bytes: int
    words: int = 1
    lanes: int = 1
    element: str = ""

    @property
    def is_vector(self) -> bool:
        return bool(self.element)

    @property
    def definition(self) -> str:
        """The struct's text."""
        align = min(16, self.bytes & -self.bytes)
        return f"struct __align__({align}) {self.name} {{\n  {self.word} v[{self.words}];\n}};"

    def parts(self, value: str) -> list[str]:
        """The words of ``value``."""
        return [f"{value}.v[{i}]" for i in range(self.words)] if self.is_vector else [value]


_INTEGERS = {1: "bool", 8: "u8", 16: "u16", 32: "u32", 64: "i64"}
_SIZES = {"bool": 1, "u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "int": 4, "float": 4}


def _scalar(attribute: Attribute) -> str | None:
    match attribute:
        case IndexType():
            return "int"
        case IntegerType():
            return _INTEGERS.get(attribute.width.data)
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "float"
        case _:
            return None


@cache
@cache
def c_type(attribute: Attribute) -> CType | None:
    """The C type of a scalar or one-dimensional vector; None where C has none here."""
    if not isinstance(attribute, XVectorType):
        name = _scalar(attribute)
        return None if name is None else CType(name, name, _SIZES.get(name, 8))
    vector = cast("XVectorType[Attribute]", attribute)
    element, shape = _scalar(vector.element_type), vector.get_shape()
    if element is None or element == "bool" or len(shape) != 1:
        return None
    size, (count,) = _SIZES.get(element, 8), shape
    word, width = element, size
    if size < 4:
        width = next(w for w in (4, 2, 1) if size * count % w == 0)
        word = {4: "u32", 2: "u16", 1: "u8"}[width]
    short = {"float": "f32", "int": "i32"}.get(element, element)
    total = size * count
    return CType(f"{short}x{count}", word, total, total // width, width // size, element)


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A function of the prelude: its name and its whole text."""

    name: str
    text: str


def _function(signature: str, body: str, template: str = "") -> DeviceFunction:
    name = signature[: signature.index("(")].split()[-1].lstrip("*")
    head = f"template <{template}>\n" if template else ""
    lines = "\n".join(f"  {line}" for line in body.strip("\n").splitlines())
    text = f"{head}__device__ __forceinline__ {signature} {{\n{lines}\n}}"
    return DeviceFunction(name, text)


def _asm(
    code: str, outs: str = "", ins: str = "", *, volatile: bool = True, memory: bool = True
) -> str:
    """An asm statement; ``code`` has an instruction a line."""
    lines = code.strip().splitlines()
    quoted = "\n    ".join(
        f'"{line.strip()}"' if i == len(lines) - 1 else f'"{line.strip()}\\n"'
        for i, line in enumerate(lines)
    )
    tail = f"\n    : {outs}" if outs else "\n    :"
    tail += f"\n    : {ins}" if ins else "\n    :"
    tail += '\n    : "memory"' if memory else ""
    if not (outs or ins or memory):
        tail = ""
    return f"asm{' volatile' if volatile else ''}({quoted}{tail});"


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
        _function(
            "u32 shared_window(const void* pointer)",
            "u32 address;\n"
            + _asm(_WINDOW, '"=r"(address)', '"l"(pointer)', volatile=False, memory=False)
            + "\nreturn address;",
        ),
        _function(
            "bool elect()",
            "u32 chosen;\n" + _asm(_ELECT, '"=r"(chosen)', memory=False) + "\nreturn chosen;",
        ),
        # cp.async: with a false predicate nothing is read and zeros arrive.
        *(
            _function(
                f"void cp_async_{n}(u32 address, const void* source)",
                _asm(
                    f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n};",
                    ins=f'{u32}, "l"(source)',
                ),
            )
            for n in (4, 8, 16)
        ),
        *(
            _function(
                f"void cp_async_{n}_if(u32 address, const void* source, bool valid)",
                _asm(
                    f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n}, %2;",
                    ins=f'{u32}, "l"(source), "r"(valid ? {n} : 0)',
                ),
            )
            for n in (4, 8, 16)
        ),
        _function("void cp_async_commit()", _asm("cp.async.commit_group;")),
        _function(
            "void cp_async_wait()",
            _asm("cp.async.wait_group %0;", ins='"n"(pending)'),
            "int pending",
        ),
        _function(
            "void named_barrier()",
            _asm("bar.sync %0, %1;", ins='"n"(id), "n"(threads)'),
            "int id, int threads",
        ),
        _function(
            "void named_barrier_at(u32 id)",
            _asm("bar.sync %0, %1;", ins='"r"(id), "n"(threads)'),
            "int threads",
        ),
        _function(
            "void named_barrier_arrive(u32 id)",
            _asm("bar.arrive %0, %1;", ins='"r"(id), "n"(threads)'),
            "int threads",
        ),
        _function(
            "void mbarrier_init(u32 barrier, u32 count)",
            _asm("mbarrier.init.shared::cta.b64 [%0], %1;", ins=f'{barrier}, "r"(count)'),
        ),
        _function(
            "void mbarrier_expect(u32 barrier, u32 bytes)",
            _asm(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
                ins=f'{barrier}, "r"(bytes)',
            ),
        ),
        _function(
            "void mbarrier_announce(u32 barrier, u32 bytes)",
            _asm(
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
                ins=f'{barrier}, "r"(bytes)',
            ),
        ),
        _function(
            "void mbarrier_arrive(u32 barrier)",
            _asm("mbarrier.arrive.shared::cta.b64 _, [%0];", ins=barrier),
        ),
        _function(
            "void mbarrier_wait(u32 barrier, u32 parity)",
            _asm(_TRY_WAIT, ins=f'{barrier}, "r"(parity)'),
        ),
        _function(
            "void fence_mbarrier_init()",
            _asm("fence.mbarrier_init.release.cluster;"),
        ),
        _function("void fence_proxy_async()", _asm("fence.proxy.async.shared::cta;")),
        *(
            _function(
                f"void {word}_registers()",
                _asm(f"setmaxnreg.{short}.sync.aligned.u32 %0;", ins='"n"(count)', memory=False),
                "int count",
            )
            for word, short in (("increase", "inc"), ("decrease", "dec"))
        ),
        _function(
            "void prefetch_tensor_map(const TensorMap* map)",
            _asm("prefetch.tensormap [%0];", ins='"l"(map)'),
        ),
        *(
            _tma_load(rank, several, hint)
            for rank in range(1, 6)
            for several in (False, True)
            for hint in ("", *CACHE_HINTS)
        ),
        _function(
            "void tma_load_im2col(u32 address, const TensorMap* map, u32 barrier, "
            "int c, int w, int h, int n, int s, int r)",
            _asm(
                "cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};",
                ins='"r"(address), "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), '
                '"h"((u16)s), "h"((u16)r)',
            ),
        ),
        *(
            _function(
                f"void ldmatrix_x4{suffix}(u32* r, u32 address)",
                _asm(
                    f"ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%0, %1, %2, %3}}, [%4];",
                    ", ".join(f'"=r"(r[{i}])' for i in range(4)),
                    u32,
                ),
            )
            for suffix, word in (("", ""), ("_transposed", ".trans"))
        ),
        *(
            _function(
                f"void stmatrix_x4{suffix}(u32 address, const u32* r)",
                _asm(
                    f"stmatrix.sync.aligned.m8n8.x4{word}.shared.b16 [%0], {{%1, %2, %3, %4}};",
                    ins=", ".join([u32, *(f'"r"(r[{i}])' for i in range(4))]),
                ),
            )
            for suffix, word in (("", ""), ("_transposed", ".trans"))
        ),
        *(_tma_store(rank) for rank in range(1, 6)),
        _function(
            "void signal_global(void* pointer)",
            _asm("red.release.gpu.global.add.u32 [%0], 1;", ins='"l"(pointer)'),
        ),
        _function(
            "void wait_global(const void* pointer, int count)",
            "int seen;\ndo {\n"
            + _asm("ld.acquire.gpu.global.s32 %0, [%1];", '"=r"(seen)', '"l"(pointer)')
            + "\n} while (seen < count);",
        ),
        _function(
            "int cluster_rank()",
            "u32 r;\n"
            + _asm("mov.u32 %0, %%cluster_ctarank;", '"=r"(r)', volatile=False, memory=False)
            + "\nreturn (int)r;",
        ),
        _function("void let_next_launch_begin()", _asm("griddepcontrol.launch_dependents;")),
        _function("void wait_for_launch_before()", _asm("griddepcontrol.wait;")),
        _function(
            "void cluster_barrier()",
            _asm("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"),
        ),
        _function(
            "u32 map_shared(u32 address, u32 rank)",
            "u32 r;\n"
            + _asm(
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
            _function(
                f"void mbarrier_arrive_cluster{suffix}(u32 barrier, u32 rank)",
                _asm(
                    "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                    f"mbarrier.arrive{release}.shared::cluster.b64 _, [remote];\n}}",
                    ins=f'{barrier}, "r"(rank)',
                ),
            )
            for suffix, release in (("", ".release.cluster"), ("_reads", ""))
        ),
        _function("void bulk_commit()", _asm("cp.async.bulk.commit_group;")),
        *(
            _function(
                f"void bulk_wait{suffix}()",
                _asm(f"cp.async.bulk.wait_group{word} %0;", ins='"n"(pending)'),
                "int pending",
            )
            for suffix, word in (("", ""), ("_read", ".read"))
        ),
        *(_mma(element) for element in ("f16", "bf16")),
        # 14 bits each of start address, leading and stride byte offset, in units of 16 bytes.
        _function(
            "i64 wgmma_descriptor(u32 address, u32 leading, u32 stride, u32 swizzle)",
            "u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16;\n"
            "u32 high = stride >> 4 | swizzle << 30;\n"
            "return (i64)((u64)high << 32 | low);",
        ),
        _function("void wgmma_fence()", _asm("wgmma.fence.sync.aligned;")),
        _function("void wgmma_commit()", _asm("wgmma.commit_group.sync.aligned;")),
        _function(
            "void wgmma_wait()",
            _asm("wgmma.wait_group.sync.aligned %0;", ins='"n"(pending)'),
            "int pending",
        ),
        # Accesses of these registers stay on their side of this line.
        _function(
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
    return _function(
        f"void tma_load_{rank}d{suffix}(u32 address, const TensorMap* map, u32 barrier, "
        f"{', '.join(f'int {n}' for n in names)}{parameter})",
        _asm(
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
    return _function(
        f"void tma_store_{rank}d(u32 address, const TensorMap* map, "
        + ", ".join(f"int {n}" for n in names)
        + ")",
        _asm(
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[%1, {{{coordinates}}}], [%0];",
            ins=", ".join(['"r"(address)', '"l"(map)', *(f'"r"({n})' for n in names)]),
        ),
    )


def _mma(element: str) -> DeviceFunction:
    return _function(
        f"void mma_m16n8k16_{element}(float* d, const u32* a, const u32* b)",
        _asm(
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
    return f"{result} r;\n{_asm(code, outs, ins, volatile=False, memory=False)}\nreturn r;"


def _conversions() -> list[DeviceFunction]:
    found = [
        _function("float f16_to_f32(f16 x)", _pure("float", "cvt.f32.f16 %0, %1;", _F, '"h"(x)')),
        _function("float bf16_to_f32(bf16 x)", "return __uint_as_float((u32)x << 16);"),
    ]
    for t in ("f16", "bf16"):
        one = _pure(t, _ONE_HALF.format(t), '"=h"(r)', '"f"(0.0f), "f"(x)')
        two = _pure("u32", f"cvt.rn.{t}x2.f32 %0, %1, %2;", '"=r"(r)', '"f"(high), "f"(low)')
        found.append(_function(f"{t} f32_to_{t}(float x)", one))
        found.append(_function(f"u32 f32_to_{t}x2(float low, float high)", two))
    return found


def _arithmetic() -> list[DeviceFunction]:
    found = [
        _function(
            f"float {name}_nan(float a, float b)",
            _pure("float", f"{name}.NaN.f32 %0, %1, %2;", _F, '"f"(a), "f"(b)'),
        )
        for name in ("max", "min")
    ]
    found.append(
        _function(
            "float exp2_approx(float x)",
            _pure("float", "ex2.approx.ftz.f32 %0, %1;", _F, '"f"(x)'),
        )
    )
    for t in ("int", "i64"):
        suffix = "" if t == "int" else "_i64"
        found += [
            _function(
                f"{t} floor_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q - (r != 0 && (r < 0) != (b < 0));",
            ),
            _function(
                f"{t} ceil_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q + (r != 0 && (r < 0) == (b < 0));",
            ),
            _function(
                f"{t} floor_mod{suffix}({t} a, {t} b)",
                f"{t} r = a % b;\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
            ),
        ]
    return found


@cache
def functions() -> dict[str, DeviceFunction]:
    """The functions that take no part of their text from a type, by name."""
    return {f.name: f for f in _fixed()}


_REGISTERS = {
    "u8": ("r", "u8"),
    "u16": ("h", "b16"),
    "f16": ("h", "b16"),
    "bf16": ("h", "b16"),
    "u32": ("r", "b32"),
    "int": ("r", "b32"),
    "float": ("f", "f32"),
    "i64": ("l", "b64"),
}
"""Constraint letter and PTX type of a word in memory; 8 bits travel in a 32-bit register."""


def can_move(t: CType) -> bool:
    """Whether one instruction loads or stores a value of this type."""
    return t.word in _REGISTERS and t.words in (1, 2, 4) and t.bytes <= 16


def _vector(t: CType, first: int) -> tuple[str, str]:
    """The PTX suffix and operand list of the words of ``t`` from operand ``first``."""
    _, kind = _REGISTERS[t.word]
    places = [f"%{first + i}" for i in range(t.words)]
    if t.words == 1:
        return f".{kind}", places[0]
    return f".v{t.words}.{kind}", "{" + ", ".join(places) + "}"


_SPACES = {"cluster": "shared::cluster"}
"""PTX's words for spaces that are called otherwise here."""


@cache
def load(space: str, t: CType, predicated: bool = False) -> DeviceFunction:
    """Load a value from ``global``, ``global.nc`` (read-only data), ``shared`` or ``cluster``.

    With ``predicated`` a false predicate reads nothing and gives zero.
    """
    letter, kind = _REGISTERS[t.word]
    suffix, places = _vector(t, 0)
    shared = space in ("shared", "cluster")
    code = f"ld.{_SPACES.get(space, space)}{suffix} {places}, [%{t.words}];"
    ins = '"r"(address)' if shared else '"l"(pointer)'
    if predicated:
        width = "b" + kind.lstrip("ubf") if kind != "u8" else "b32"
        zeros = "".join(f"mov.{width} %{i}, 0;\n" for i in range(t.words))
        code = f"{{\n.reg .pred p;\nsetp.ne.b32 p, %{t.words + 1}, 0;\n{zeros}@p {code}\n}}"
        ins += ', "r"((u32)valid)'
    pure = space == "global.nc"
    name = f"load_{space.replace('.', '_')}_{_short(t)}{'_if' if predicated else ''}"
    argument = "u32 address" if shared else "const void* pointer"
    local, result = (t.name, "r") if t.word != "u8" else ("u32", "(u8)r")
    outs = ", ".join(f'"={letter}"({part})' for part in t.parts("r"))
    return _function(
        f"{t.name} {name}({argument}{', bool valid' if predicated else ''})",
        f"{local} r;\n{_asm(code, outs, ins, volatile=not pure, memory=not pure)}\n"
        f"return {result};",
    )


@cache
def store(space: str, t: CType) -> DeviceFunction:
    """Store a value to ``space``: ``global``, ``shared`` or ``cluster``."""
    letter, _ = _REGISTERS[t.word]
    suffix, places = _vector(t, 1)
    shared = space in ("shared", "cluster")
    values = [f"(u32){p}" if t.word == "u8" else p for p in t.parts("value")]
    ins = ['"r"(address)' if shared else '"l"(pointer)']
    ins += [f'"{letter}"({v})' for v in values]
    return _function(
        f"void store_{space}_{_short(t)}"
        f"({'u32 address' if shared else 'void* pointer'}, {t.name} value)",
        _asm(f"st.{_SPACES.get(space, space)}{suffix} [%0], {places};", ins=", ".join(ins)),
    )


def _short(t: CType) -> str:
    return {"float": "f32", "int": "index"}.get(t.name, t.name)


@cache
def reduction(space: str, function: str, element: str) -> DeviceFunction:
    """Atomic update without a result in ``space``: ``global`` or ``shared`` (PTX ``red``)."""
    word, letter, kind = {
        ("f32", "add"): ("float", "f", "f32"),
        ("i32", "add"): ("u32", "r", "u32"),
        ("i32", "max"): ("u32", "r", "s32"),
        ("i32", "min"): ("u32", "r", "s32"),
    }[element, function]
    shared = space == "shared"
    place = '"r"(address)' if shared else '"l"(pointer)'
    return _function(
        f"void reduce_{space}_{function}_{element}"
        f"({'u32 address' if shared else 'void* pointer'}, {word} value)",
        _asm(
            f"red.relaxed.{'cta' if shared else 'gpu'}.{space}.{function}.{kind} [%0], %1;",
            ins=f'{place}, "{letter}"(value)',
        ),
    )


@cache
def wgmma(
    n: int, element: str, transpose_a: bool, transpose_b: bool, clear: bool = False
) -> DeviceFunction:
    """``d += a · b`` for m64nNk16; ``d`` is N/2 registers, a and b are descriptors.

    With ``clear`` it is ``d = a · b``.
    """
    count = n // 2
    places, outs = _accumulator(count)
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element}\n{{{places}}},\n"
        f"%{count}, %{count + 1}, {int(not clear)}, 1, 1, {int(transpose_a)}, {int(transpose_b)};"
    )
    suffix = ("_ta" if transpose_a else "") + ("_tb" if transpose_b else "")
    suffix += "_clear" if clear else ""
    return _function(
        f"void wgmma_m64n{n}k16_{element}{suffix}(float (&d)[{count}], i64 a, i64 b)",
        _asm(code, outs, '"l"(a), "l"(b)', memory=False),
    )


def _accumulator(count: int) -> tuple[str, str]:
    """The registers of ``d`` in an instruction's text, and as operands of an asm statement."""
    rows = [range(i, min(i + 8, count)) for i in range(0, count, 8)]
    places = ",\n".join(", ".join(f"%{i}" for i in row) for row in rows)
    outs = ",\n      ".join(", ".join(f'"+f"(d[{i}])' for i in row) for row in rows)
    return places, outs


@cache
def wgmma_registers(n: int, element: str, transpose_b: bool, clear: bool) -> DeviceFunction:
    """``wgmma`` with a in four registers of pairs."""
    count = n // 2
    places, outs = _accumulator(count)
    a = ", ".join(f"%{count + i}" for i in range(4))
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element}\n{{{places}}},\n"
        f"{{{a}}}, %{count + 4}, {int(not clear)}, 1, 1, {int(transpose_b)};"
    )
    suffix = ("_tb" if transpose_b else "") + ("_clear" if clear else "")
    return _function(
        f"void wgmma_m64n{n}k16_{element}_registers{suffix}(float (&d)[{count}], "
        "u32 a0, u32 a1, u32 a2, u32 a3, i64 b)",
        _asm(code, outs, ", ".join([*(f'"r"(a{i})' for i in range(4)), '"l"(b)']), memory=False),
    )


PREFIXES = (
    "load_global_",
    "load_shared_",
    "store_global_",
    "store_shared_",
    "reduce_",
    "wgmma_m64n",
    "load_cluster_",
    "store_cluster_",
)
"""How the names of the functions made on demand begin."""
