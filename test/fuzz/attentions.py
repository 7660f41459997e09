"""A search for layers of attention that are slow by the model of time, refused or wrong.

A number gives a layer as models have it (``attention_layers.py``).  It is planned at a model's
sizes: a product of more than 10⁶ multiply-adds that threads compute without tensor cores is a find,
and so is a time of more than ``LIMIT`` times what its products, its bytes, its exponentials and the
launches of its steps take.  With ``--numbers`` the layer is made small,
played back at every layer and simulated, as ``models.py`` does with its programs.

    python test/fuzz/attentions.py --runs 200 --seed 0
    python test/fuzz/attentions.py --first 17 --runs 1 --numbers

Needs no GPU.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from functools import partial
from math import prod

from xdsl.dialects.builtin import ModuleOp, f32

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.dialects.gpu.types import element_bytes
from polyc.test.fuzz import models
from polyc.test.fuzz.cliffs import ARCH, planned
from polyc.test.fuzz.layers import REFUSED
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.fuzz.search import parser, search
from polyc.test.support.attention_layers import ELEMENTS, Layer, drawn
from polyc.tools.printing import module_text

LIMIT = 3.0
"""What a layer may take of its roofline."""
FLOPS, EXACT_FLOPS = 600e12, 45e12
"""Of tensor cores a second, and of threads that multiply f32."""
BYTES = 2.8e12
"""A second, of memory."""
POWERS = 3e12
"""Exponentials a second."""
SLOWER = {"sm_80": 2.2, "sm_90a": 1.0}
"""How much longer all that takes on an A100."""
LAUNCH = 4e-6
"""Seconds of a kernel that does next to nothing, behind others."""


def layer_of(number: int, seed: int) -> Layer:
    """The layer of a number."""
    return drawn(random.Random(f"{seed} {number}"))


def roofline(layer: Layer, module: ModuleOp, arch: str = ARCH) -> float:
    """The seconds that a layer takes with no more kernels than it has steps, each as fast as what
    it is bound by."""
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    (last,) = (op for op in graph.body.block.ops if op.name == "frontend.output")
    moved = 0.0
    for value in (*graph.body.block.args, *last.operands):
        kind = tensor_of(value)
        moved += element_bytes(kind.element_type) * prod(d.evaluate(layer.sizes) for d in kind.dims)
    pairs = layer.batch * layer.heads * layer.queries * layer.keys
    rate = EXACT_FLOPS if ELEMENTS[layer.element] == f32 else FLOPS
    busy = layer.operations / rate + moved / BYTES
    if layer.kind == "softmax":
        busy = max(busy, pairs / POWERS)
    return busy * SLOWER[arch] + LAUNCH * layer.steps


def failure(
    layer: Layer, arch: str = ARCH, counts: Counter[str] | None = None, limit: float = LIMIT
) -> str | None:
    """What is slow about a layer, as a sentence; None where nothing is."""
    reached = Counter[str]() if counts is None else counts
    module = layer.module()
    try:
        found = planned(module_text(module), tuple(layer.sizes.items()), arch)
    except PolycError as error:
        if error.kind not in REFUSED:
            return f"{layer.title}: {error.format()}"
        reached[f"end as {error.kind}"] += 1
        return f"{layer.title}: refused as {error.kind}: {error.message}"
    reached["planned"] += 1
    said: list[str] = []
    if found.by_threads:
        reached["without tensor cores"] += 1
        said.append(f"without tensor cores {', '.join(found.by_threads)}")
    least = roofline(layer, module, arch)
    if (ratio := found.seconds / least) > limit:
        reached["over the limit"] += 1
        each = ", ".join(f"{t.variant} {t.seconds * 1e6:.3g}" for t in found.times)
        said.append(f"{ratio:.1f} of {least * 1e6:.3g} us: {each}")
    return f"{layer.title}: {'; '.join(said)}" if said else None


def wrong(layer: Layer, name: str, counts: Counter[str] | None = None) -> str | None:
    """What is wrong with the numbers of a layer made small, at some layer or in the simulator."""
    small = layer.small
    program = RandomProgram(small.module(), small.sizes)
    why = models.failure(program, random.Random(f"numbers {name}"), counts)
    return None if why is None else f"{small.title}: {why}"


def attempt(
    number: int, seed: int, arch: str = ARCH, numbers: bool = False
) -> tuple[str | None, Counter[str]]:
    """The layer of a number, and what is counted of it."""
    counts = Counter[str]()
    layer = layer_of(number, seed)
    try:
        if numbers:
            return wrong(layer, f"{seed} {number}", counts), counts
        return failure(layer, arch, counts), counts
    except Exception as error:
        return f"{layer.title}: {type(error).__name__}: {str(error).splitlines()[:1]}", counts


def main() -> int:
    options = parser(__doc__ or "", 200)
    options.add_argument("--arch", default=ARCH, choices=("sm_80", "sm_90a"))
    options.add_argument("--numbers", action="store_true", help="play small ones back instead")
    args = options.parse_args()
    trial = partial(attempt, arch=args.arch, numbers=args.numbers)
    return search("layer of attention", trial, args, every=50)


if __name__ == "__main__":
    sys.exit(main())
