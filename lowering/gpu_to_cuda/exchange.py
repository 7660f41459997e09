"""The printer: values between lanes, and atomic updates (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from functools import cache

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.accesses import pointer_to
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints


@cache
def reduction(space: str, function: str, element: str) -> DeviceFunction:
    """Atomic update without a result in ``space``: ``global`` or ``shared`` (PTX ``red``)."""
    word, letter, kind = {
        ("f32", "add"): ("float", "f", "f32"),
        ("i32", "add"): ("u32", "r", "u32"),
        ("i32", "max"): ("u32", "r", "s32"),
        ("i32", "min"): ("u32", "r", "s32"),
        ("i32", "umax"): ("u32", "r", "u32"),
        ("i64", "add"): ("i64", "l", "u64"),
        ("i64", "umax"): ("i64", "l", "u64"),
    }[element, function]
    shared, word_of = space == "shared", function.removeprefix("u")
    place = '"r"(address)' if shared else '"l"(pointer)'
    return device_function(
        f"void reduce_{space}_{function}_{element}"
        f"({'u32 address' if shared else 'void* pointer'}, {word} value)",
        asm(
            f"red.relaxed.{'cta' if shared else 'gpu'}.{space}.{word_of}.{kind} [%0], %1;",
            ins=f'{place}, "{letter}"(value)',
        ),
    )


@prints(hw.ShuffleOp, "shuffled")
def _shuffle(w: KernelWriter, op: hw.ShuffleOp) -> None:
    name = {"xor": "__shfl_xor_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync"}.get(
        op.kind.data, "__shfl_sync"
    )
    w.define(op.result, f"{name}(0xffffffffu, {w.text(op.value)}, {w.text(op.lane)})")


@cache
def match(bits: int) -> DeviceFunction:
    """The lanes whose low bits are a lane's, a bit each: a vote for each bit.

    A predicate that a vote leaves turns it round: chosen in C it takes twice the instructions.
    """
    lines = ["u32 same = 0xffffffffu;"]
    for bit in range(bits):
        vote = (
            "{\n.reg .pred p;\n.reg .b32 t;\n"
            f"and.b32 t, %1, {1 << bit};\nsetp.ne.u32 p, t, 0;\n"
            "vote.sync.ballot.b32 t, p, 0xffffffff;\n@!p not.b32 t, t;\nand.b32 %0, %0, t;\n}"
        )
        lines.append(asm(vote, '"+r"(same)', '"r"(value)', memory=False))
    lines.append("return same;")
    return device_function(f"u32 match_lanes_{bits}(u32 value)", "\n".join(lines))


define(
    device_function(
        "u32 lanes_below()",
        "u32 r;\n"
        + asm("mov.u32 %0, %%lanemask_lt;", '"=r"(r)', volatile=False, memory=False)
        + "\nreturn r;",
    )
)


@prints(hw.MatchLanesOp)
def _match_lanes(w: KernelWriter, op: hw.MatchLanesOp) -> None:
    same = w.fresh("same")
    w.line(f"u32 {same} = {w.call(match(op.bits.value.data), w.text(op.value))};")
    w.define(op.rank, f"__popc({same} & {w.call('lanes_below')})")
    w.define(op.count, f"__popc({same})")
    w.define(op.first, f"__ffs({same}) - 1")


@prints(hw.AtomicGlobalOp)
def _atomic_global(w: KernelWriter, op: hw.AtomicGlobalOp) -> None:
    pointer = pointer_to(w, op, op.tensor, op.indices)
    name = reduction("global", op.function.data, str(op.value.type))
    call = w.call(name, pointer, w.text(op.value))
    w.line(f"{call};" if op.predicate is None else f"if ({w.text(op.predicate)}) {call};")


@cache
def exchange(adds: bool = False) -> DeviceFunction:
    """What was at an address before it was set, or added to (PTX ``atom``)."""
    return device_function(
        f"u32 {'fetch_add' if adds else 'exchange'}_global(void* pointer, u32 value)",
        "u32 r;\n"
        + asm(
            f"atom.relaxed.gpu.global.{'add.u32' if adds else 'exch.b32'} %0, [%1], %2;",
            outs='"=r"(r)',
            ins='"l"(pointer), "r"(value)',
        )
        + "\nreturn r;",
    )


@prints(hw.ExchangeGlobalOp, "before")
def _exchange_global(w: KernelWriter, op: hw.ExchangeGlobalOp) -> None:
    pointer = pointer_to(w, op, op.tensor, op.indices)
    call = w.call(exchange(op.adds), pointer, w.text(op.value))
    w.define(op.result, call if op.predicate is None else f"{w.text(op.predicate)} ? {call} : 0u")


@cache
def fetch_add() -> DeviceFunction:
    """What was at a shared address before something was added (PTX ``atom``)."""
    return device_function(
        "u32 fetch_add_shared(u32 address, u32 value)",
        "u32 r;\n"
        + asm(
            "atom.relaxed.cta.shared.add.u32 %0, [%1], %2;",
            outs='"=r"(r)',
            ins='"r"(address), "r"(value)',
        )
        + "\nreturn r;",
    )


@prints(hw.FetchAddSharedOp, "before")
def _fetch_add(w: KernelWriter, op: hw.FetchAddSharedOp) -> None:
    w.define(op.result, w.call(fetch_add(), w.text(op.address), w.text(op.value)))


@prints(hw.AtomicSharedOp)
def _atomic_shared(w: KernelWriter, op: hw.AtomicSharedOp) -> None:
    name = reduction("shared", op.function.data, str(op.value.type))
    w.run(name, w.text(op.address), w.text(op.value))
