"""Attentions as graphs, their values at every level, and the kernels that they become."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, i1

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback.functions import round_to
from polyc.rewriting.driver import copied
from polyc.test.support.gpu_text import find, only, parsed, printed
from polyc.test.support.plans import leave_chosen
from polyc.tools.registry import make_context

Array = NDArray[Any]

TO_REGION = ABOVE_GPU[: ABOVE_GPU.index("plan-select")]


@dataclass(frozen=True)
class Attention:
    """A ``frontend.attention`` and sizes to run it at."""

    q: str
    k: str
    v: str
    sizes: Sequence[Mapping[str, int]]
    options: str = ""
    masks: Sequence[str] = ()
    element: str = "f16"
    lse: bool = False
    assuming: str = ""
    given: str = ""
    """More inputs, for the symbols of their shapes."""

    @property
    def out(self) -> str:
        return f"{self.q.rpartition(',')[0]},{self.v.rpartition(',')[2]}"

    def text(self) -> str:
        kinds = [f"{shape}, {self.element}" for shape in (self.q, self.k, self.v)] + list(
            self.masks
        )
        types = [f"!frontend.tensor<{kind}>" for kind in kinds]
        names = ["%q", "%k", "%v", *(f"%mask{i}" for i in range(len(self.masks)))]
        mask = f" mask {', '.join(names[3:])}" if self.masks else ""
        inputs = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
        if self.given:
            inputs += f", %given: !frontend.tensor<{self.given}>"
        results = {"O": f"!frontend.tensor<{self.out}, {self.element}>"}
        if self.lse:
            results["L"] = f"!frontend.tensor<{self.out.rpartition(',')[0]}], f32>"
        values = ", ".join(f"%{i}" for i in range(len(results)))
        kinds_out = ", ".join(results.values())
        made = f"({kinds_out})" if self.lse else kinds_out
        named = ", ".join(f"{n}: {t}" for n, t in results.items())
        facts = f" assuming ({self.assuming})" if self.assuming else ""
        return f"""frontend.graph @attention({inputs}) -> ({named}){facts} {{
  {values} = frontend.attention %q, %k, %v{mask}{self.options} {{acc = f32}}
      : ({", ".join(types)}) -> {made}
  frontend.output {values} : {kinds_out}
}}
"""

    def region(self) -> ModuleOp:
        """The graph as a region."""
        return copied(_region(self.text()))

    def whole(self) -> ModuleOp:
        """The graph as one region, whether or not a family has a schedule for it as one."""
        module = passed(self.text(), *TO_REGION[: TO_REGION.index("index-to-region")])
        IndexToRegion(fuse="legal").apply(make_context(), module)
        return passed(module, *TO_REGION[TO_REGION.index("index-to-region") + 1 :])

    def kernel(self) -> KernelOp:
        """The region's kernel; not to be changed."""
        return only(_region(self.text()), KernelOp)

    def inputs(self, sizes: Mapping[str, int], seed: int = 0) -> list[Array]:
        """Random values as they are stored; a quarter of an additive mask is -inf."""
        rng = np.random.default_rng(seed)
        found: list[Array] = []
        for arg in self.kernel().ins:
            kind: Any = arg.type
            dims: Sequence[Dim] = kind.shape
            shape = [d.evaluate(sizes) for d in dims]
            array = rng.standard_normal(shape).astype(np.float32)
            if str(arg.name_hint).startswith("mask"):
                array = np.where(rng.random(shape) < 0.25, -np.inf, array).astype(np.float32)
            is_condition = kind.element_type == i1
            found.append(array > -1 if is_condition else round_to(array, kind.element_type))
        return found


@cache
def _region(text: str) -> ModuleOp:
    """A graph as a region; not to be changed."""
    return passed(text, *TO_REGION)


def passed(
    module: str | ModuleOp,
    *passes: str,
    arch: str = "sm_80",
    few: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> ModuleOp:
    """The module after passes of the pipeline; ``few`` leaves the schedules for few queries there,
    which are more kernels than most tests are about, and ``sizes`` the one that runs at these."""
    made = parsed(module) if isinstance(module, str) else module
    for name in passes:
        build(name, arch).apply(make_context(), made)
        if name == "plan-select" and not few:
            for plan in find(made, ScheduleOp):
                if plan.of_few_queries and len(find(made, ScheduleOp)) > 1:
                    plan.detach()
            if sizes is not None:
                leave_chosen(made, sizes)
    return made


def in_two_walks(region: str, variant: str, arch: str, *edits: tuple[str, str]) -> ModuleOp:
    """The kernel of a region's variant that takes the keys twice, alone and at the tile level.

    ``edits`` are more changes of its plan, each of a text by another.
    """
    planned = printed(passed(region, "plan-select", arch=arch))
    start = planned.index(f'variant "{variant}"')
    head, tail = planned[:start], planned[start:]
    ways = '"attention" = "streaming_softmax"', '"attention" = "streaming_softmax_2pass"'
    for old, new in (ways, *edits):
        assert old in tail
        tail = tail.replace(old, new, 1)
    module = passed(head + tail, "region-to-gpu", arch=arch)
    for op in list(module.walk()):
        name = op.sym_name.data if isinstance(op, gpu.KernelOp) else None
        name = op.kernel_name if isinstance(op, LaunchOp) else name
        if name is not None and not name.endswith(variant):
            op.detach()
    return module


H64 = ("[H, M, 64]", "[H, N, 64]", "[H, N, 64]")
UNEVEN = [{"H": 2, "M": 70, "N": 150}, {"H": 1, "M": 200, "N": 33}]

PROGRAMS: Mapping[str, Attention] = {
    "full": Attention(*H64, UNEVEN),
    "one key, one query": Attention(*H64, [{"H": 3, "M": 1, "N": 1}]),
    "no key": Attention(*H64, [{"H": 2, "M": 5, "N": 0}]),
    "no query": Attention(*H64, [{"H": 2, "M": 0, "N": 5}]),
    "causal": Attention(*H64, UNEVEN, options=" causal"),
    "causal from the end": Attention(*H64, UNEVEN, options=" causal offset N - M"),
    "the first rows see nothing": Attention(
        *H64, [{"H": 1, "M": 300, "N": 140}], options=" causal offset -150"
    ),
    "window": Attention(*H64, [{"H": 1, "M": 300, "N": 300}], options=" causal window [40, 0]"),
    "window to both sides": Attention(
        *H64, [{"H": 1, "M": 150, "N": 420}], options=" window [3, 17] offset N - M"
    ),
    "additive mask": Attention(*H64, [{"H": 2, "M": 70, "N": 150}], masks=["[H, M, N], f32"]),
    "additive mask of a row, causal": Attention(
        *H64, [{"H": 2, "M": 70, "N": 150}], options=" causal", masks=["[H, 1, N], f16"]
    ),
    "boolean mask, causal": Attention(
        *H64, [{"H": 2, "M": 70, "N": 150}], options=" causal", masks=["[M, N], i1"]
    ),
    "both masks": Attention(
        *H64, [{"H": 2, "M": 70, "N": 75}], masks=["[H, 1, N], i1", "[M, N], f16"]
    ),
    "no scale": Attention(*H64, UNEVEN[:1], options=" scale 1.0"),
    "a cap, causal": Attention(*H64, UNEVEN, options=" cap 2.0 causal"),
    "negative scale": Attention(*H64, UNEVEN[:1], options=" scale -0.25"),
    "bf16": Attention(*H64, UNEVEN[:1], element="bf16", options=" causal"),
    "log-sum-exp": Attention(*H64, UNEVEN, lse=True, options=" causal offset -3"),
    "batches and heads of 128": Attention(
        "[B, H, M, 128]",
        "[B, H, N, 128]",
        "[B, H, N, 128]",
        [{"B": 2, "H": 2, "M": 70, "N": 90}],
        " causal",
    ),
    "shared heads": Attention(
        "[B, 4 * H, M, 64]",
        "[B, H, N, 64]",
        "[B, H, N, 64]",
        [{"B": 2, "H": 2, "M": 20, "N": 30}],
        " causal",
    ),
    "one head of keys": Attention(
        "[B, 3, M, 64]", "[B, 1, N, 64]", "[B, 1, N, 64]", [{"B": 2, "M": 20, "N": 30}]
    ),
    "heads of 16": Attention("[H, M, 16]", "[H, N, 16]", "[H, N, 16]", UNEVEN[:1]),
    "heads of 32": Attention("[H, M, 32]", "[H, N, 32]", "[H, N, 32]", UNEVEN[:1], " causal"),
    "heads of 96": Attention("[H, M, 96]", "[H, N, 96]", "[H, N, 96]", UNEVEN[:1]),
    "heads of 48 and 80": Attention("[H, M, 48]", "[H, N, 48]", "[H, N, 80]", UNEVEN[:1]),
    "heads of 64 and 256": Attention("[H, M, 64]", "[H, N, 64]", "[H, N, 256]", UNEVEN[:1]),
    "heads of 40": Attention("[H, M, 40]", "[H, N, 40]", "[H, N, 40]", UNEVEN[:1]),
    "heads of 8 and 24": Attention(
        "[H, M, 8]", "[H, N, 8]", "[H, N, 24]", [{"H": 2, "M": 20, "N": 90}], " causal offset 9"
    ),
    "heads of 72 and 40, masked": Attention(
        "[H, M, 72]",
        "[H, N, 72]",
        "[H, N, 40]",
        [{"H": 2, "M": 70, "N": 90}],
        masks=["[H, M, N], f32"],
    ),
    "shared heads of 40, log-sum-exp": Attention(
        "[B, 4 * H, M, 40]",
        "[B, H, N, 40]",
        "[B, H, N, 40]",
        [{"B": 1, "H": 1, "M": 20, "N": 30}],
        " causal",
        element="bf16",
        lse=True,
    ),
    "even sizes": Attention(
        *H64, [{"H": 1, "M": 128, "N": 256}], assuming="M mod 128 == 0, N mod 128 == 0"
    ),
}
"""Every way in which attentions differ, at sizes with tails."""


def heads_of(features: int, options: str = "") -> Attention:
    """Attention of H heads, of which Q, K and V have as many features."""
    q, k, v = (f"[H, {axis}, {features}]" for axis in "MNN")
    return Attention(q, k, v, [], options)


def heads_in_rows(packed: bool, depth: int = 64, width: int | None = None) -> str:
    """Causal attention of heads that follow one another in the rows of Q, K and V.

    The three are tensors of their own, or, ``packed``, parts of the rows of one.  Heads have
    ``depth`` features, those of V ``width``.
    """
    sizes = (depth, depth, width or depth)
    starts = (0, depth, 2 * depth, sum(sizes))

    def kind(shape: str) -> str:
        return f"!frontend.tensor<[{shape}], f16>"

    rows, splits, kinds = (
        [kind(shape.format(size)) for size in sizes]
        for shape in ("B, M, {} * H", "B, M, H, {}", "B, H, M, {}")
    )
    whole = kind(f"B, M, {sum(sizes)} * H")
    given = ", ".join(f"%{x}: {row}" for x, row in zip("qkv", rows, strict=True))
    lines: list[str] = []
    for i, x in enumerate("qkv"):
        if packed:
            lines.append(
                f"%{x} = frontend.slice %qkv [0:B, 0:M, {starts[i]} * H:{starts[i + 1]} * H] "
                f": {whole} -> {rows[i]}"
            )
        lines.append(f"%{x}1 = frontend.reshape %{x} : {rows[i]} -> {splits[i]}")
        turned = f"{splits[i]} -> {kinds[i]}"
        lines.append(f"%{x}2 = frontend.permute %{x}1 perm [0, 2, 1, 3] : {turned}")
    body = "\n  ".join(lines)
    return f"""frontend.graph @attention({f"%qkv: {whole}" if packed else given}) -> {kinds[2]} {{
  {body}
  %0 = frontend.attention %q2, %k2, %v2 causal {{acc = f32}} : ({", ".join(kinds)}) -> {kinds[2]}
  frontend.output %0 : {kinds[2]}
}}
"""


def rows_of_heads(packed: bool, features: int, sizes: Mapping[str, int]) -> list[Array]:
    """Random inputs of such a graph with heads of as many features."""
    rng = np.random.default_rng(3)
    row = sizes["H"] * features
    shapes = [(sizes["B"], sizes["M"], n) for n in ([3 * row] if packed else [row] * 3)]
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def parts_of_heads(whole: int, used: int) -> str:
    """Attention of the first ``used`` features of each of H heads of ``whole``."""
    given, read = (f"!frontend.tensor<[H, M, {size}], f16>" for size in (whole, used))
    cuts = "\n".join(
        f"  %{x}1 = frontend.slice %{x} [0:H, 0:M, 0:{used}] : {given} -> {read}" for x in "qkv"
    )
    return f"""frontend.graph @attention(%q: {given}, %k: {given}, %v: {given}) -> {read} {{
{cuts}
  %0 = frontend.attention %q1, %k1, %v1 {{acc = f32}} : ({read}, {read}, {read}) -> {read}
  frontend.output %0 : {read}
}}
"""


def in_rows_of_64(*sides: str) -> str:
    """The region of attention with heads of 40, of which Q, K or V are the first of rows of 64."""
    text = printed(heads_of(40).region())
    for side in sides:
        said = rf"(%{side}(?:| affine_map<[^:]*>) ?: !region.memref<\[H, [MN]), 40\]"
        text, count = re.subn(said, r"\1, 64]", text)
        assert count == 2
    return text
