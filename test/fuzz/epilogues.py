"""Random epilogues at the sizes of real programs, down to CUDA text.

A program is drawn from a number: what gives a value of the size that plans are made for, such as a
product, a convolution or a norm, and behind it functions of it and of what is read there: a bias,
a residual, a number a row.  It takes the default plans to the text of its kernels, which says
whether each pass and the printer take what the passes before them leave.  Nothing is computed and
nothing compiled, so that large sizes cost no more than small ones.

    python test/fuzz/epilogues.py --runs 2000 --seed 0
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import BINARY_FUNCTIONS, UNARY_FUNCTIONS, tensor_of
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.fuzz.search import parser, search
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

ELEMENTS: tuple[Attribute, ...] = (f16, bf16, f32)
ARCHS = ("sm_80", "sm_90a")
FUNCTIONS = (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS)

WIDTHS = (768, 1000, 1024, 2048, 4096, 8192)
"""Features and rows."""

Producer = Callable[[Sketch, random.Random], SSAValue]


def _product(s: Sketch, dice: random.Random) -> SSAValue:
    m, n, k = (dice.choice(WIDTHS) for _ in range(3))
    return _times(s, dice, m, n, k)


def _few_rows(s: Sketch, dice: random.Random) -> SSAValue:
    n, k = (dice.choice(WIDTHS) for _ in range(2))
    return _times(s, dice, dice.choice((1, 4, 16, 33)), n, k)


def _any_rows(s: Sketch, dice: random.Random) -> SSAValue:
    n, k = (dice.choice(WIDTHS) for _ in range(2))
    return _times(s, dice, "M", n, k)


def _times(s: Sketch, dice: random.Random, m: int | str, n: int, k: int) -> SSAValue:
    turned = dice.random() < 0.5
    x, w = s.input("x", m, k), s.input("w", *((n, k) if turned else (k, n)))
    return s.gemm(x, w, turned=turned, element=dice.choice((s.element, f32)))


def _batches(s: Sketch, dice: random.Random) -> SSAValue:
    m, n, k = (dice.choice((64, 128, 500, 1024)) for _ in range(3))
    batch = dice.choice((8, 96))
    return s.gemm(s.input("x", batch, m, k), s.input("w", batch, k, n))


def _convolution(s: Sketch, dice: random.Random) -> SSAValue:
    batch, side, taps = dice.choice((1, 32)), dice.choice((14, 56)), dice.choice((1, 3))
    channels, filters = (dice.choice((64, 128, 256)) for _ in range(2))
    layout = dice.choice(("nhwc", "nchw"))
    first = layout == "nchw"
    image = (batch, channels, side, side) if first else (batch, side, side, channels)
    weight = (filters, channels, taps, taps) if first else (filters, taps, taps, channels)
    x, w = s.input("x", *image), s.input("w", *weight)
    return s.add(frontend.Conv2dOp(x, w, layout=layout, padding=[taps // 2] * 4))


def _attention(s: Sketch, dice: random.Random) -> SSAValue:
    shape = (dice.choice((8, 32)), dice.choice((512, 1000)), dice.choice((64, 128)))
    q, k, v = (s.input(name, *shape) for name in "qkv")
    return s.add(frontend.AttentionOp(q, k, v))


def _rows(s: Sketch, dice: random.Random) -> SSAValue:
    x = s.input("x", dice.choice(WIDTHS), dice.choice((*WIDTHS, 128, 50000)))
    return dice.choice((s.softmax, partial(s.rms_norm, name="g"), partial(s.layer_norm, name="g")))(
        x
    )


def _columns(s: Sketch, dice: random.Random) -> SSAValue:
    x = s.input("x", dice.choice(WIDTHS), dice.choice((*WIDTHS, 64)))
    mean = s.reduce("mean", x, 0, keep=True)
    return mean if dice.random() < 0.5 else s.fn("sub", x, mean)


def _sum(s: Sketch, dice: random.Random) -> SSAValue:
    return s.reduce("sum", s.input("x", dice.choice(WIDTHS), dice.choice((64, *WIDTHS))), 1)


def _running_sum(s: Sketch, dice: random.Random) -> SSAValue:
    shape = (dice.choice((64, 4096)), dice.choice(WIDTHS))
    return s.add(frontend.ScanOp("sum", s.input("x", *shape), dice.choice((0, 1))))


def _gathered(s: Sketch, dice: random.Random) -> SSAValue:
    tables = s.input("x", dice.choice((9, 64)), *(dice.choice((40, 72, 512)) for _ in range(2)))
    places = s.input("i", dice.choice((5, 64)), element=i64)
    return s.add(frontend.GatherOp(tables, places, 0))


def _read(s: Sketch, dice: random.Random) -> SSAValue:
    return s.input("x", dice.choice(WIDTHS), dice.choice((*WIDTHS, 1001)))


PRODUCERS: dict[str, Producer] = {
    "product": _product,
    "few rows": _few_rows,
    "any rows": _any_rows,
    "batches": _batches,
    "convolution": _convolution,
    "attention": _attention,
    "rows": _rows,
    "columns": _columns,
    "sum": _sum,
    "running sum": _running_sum,
    "gathered": _gathered,
    "read": _read,
}
"""What gives the value that an epilogue is of."""


def program(
    dice: random.Random, producer: str, element: Attribute, functions: Sequence[str]
) -> ModuleOp:
    """The graph of a producer and of functions of what it gives, in this order, the first of them
    of a bias.  One in four is turned before that."""
    s = Sketch("f", element)
    y = PRODUCERS[producer](s, dice)
    rank = tensor_of(y).rank
    if rank > 1 and dice.random() < 0.25:
        y = s.permute(y, *range(rank - 2), rank - 1, rank - 2)
    y = s.fn("add", y, _other(s, dice, y, "bias"))
    for number, name in enumerate(functions):
        if name in BINARY_FUNCTIONS:
            other = _other(s, dice, y, f"r{number}")
            y = s.fn(name, *(dice.sample((y, other), 2)))
        else:
            y = s.fn(name, y)
    if tensor_of(y).element_type != element and dice.random() < 0.5:
        y = s.cast(y, element)
    return s.done(out=y)


def _other(s: Sketch, dice: random.Random, y: SSAValue, name: str) -> SSAValue:
    """One more input, that is read beside ``y``: whole, along some of its axes, or one number."""
    kind = tensor_of(y)
    shapes: list[Sequence[Size]] = [kind.dims, kind.dims[-1:], (*kind.dims[:-1], 1)]
    if kind.rank == 4:
        shapes.append((kind.dims[1], 1, 1))
    return s.input(name, *dice.choice(shapes), element=kind.element_type)


def drawn(dice: random.Random) -> tuple[ModuleOp, str]:
    """A program of up to four functions, and the architecture that it is for."""
    functions = [dice.choice(FUNCTIONS) for _ in range(dice.randint(1, 4))]
    made = program(dice, dice.choice(tuple(PRODUCERS)), dice.choice(ELEMENTS), functions)
    return made, dice.choice(ARCHS)


def failure(module: ModuleOp, arch: str) -> str | None:
    """Why a program has no CUDA text; None where it has.  Any exception is a fault."""
    try:
        kernels = gpu_module_of(Compilation(make_context(), module.clone(), arch).run().module)
        text = cuda_source(kernels)
    except PolycError as error:
        return f"{arch}: {error.format()}"
    except Exception as error:
        return f"{arch}: {type(error).__name__}: {str(error).splitlines()[:1]}"
    missing = [k.sym_name.data for k in kernels.kernels() if k.sym_name.data not in text]
    return f"{arch}: no text of {', '.join(missing)}" if missing else None


def attempt(number: int, seed: int, show: bool = False) -> tuple[str | None, Counter[str]]:
    """What is wrong with the program of a number."""
    module, arch = drawn(random.Random(f"{seed} {number}"))
    why = failure(module, arch)
    if why is not None and show:
        why += f"\n{module}"
    return why, Counter()


def main() -> int:
    options = parser(__doc__ or "", 2000)
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    args = options.parse_args()
    return search("epilogue", partial(attempt, show=args.show), args, every=100)


if __name__ == "__main__":
    sys.exit(main())
