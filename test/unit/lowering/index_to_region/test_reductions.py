"""Which reductions are stored so that no kernel computes them again and again (S11.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.cost.time import times_of
from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import tensor
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.moments import moments_of
from polyc.families.loops.recognise import find_loops, steps_of
from polyc.lowering.index_to_region import IndexToRegion, reductions
from polyc.lowering.index_to_region.kernels import Fuse, Kernels
from polyc.lowering.index_to_region.reductions import AGAIN
from polyc.passes.pipeline import STAGES, build
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context
from polyc.trace.builder import Builder


def planned(module: ModuleOp, fuse: Fuse = "cost", until: str = "plan") -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            partition = name == "index-to-region"
            step = IndexToRegion(fuse=fuse) if partition else build(name, "sm_90a")
            step.apply(make_context(), found)
        if stage == until:
            break
    return found


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.ops if isinstance(op, KernelOp)]


def heads_of_rows() -> ModuleOp:
    s = Sketch("heads_of_rows")
    soft = s.softmax(s.input("x", "T", 1024))
    return s.done(y=s.permute(s.reshape(soft, "T", 16, 64), 1, 2, 0))


def norm_of_pixels() -> ModuleOp:
    s = Sketch("norm_of_pixels")
    return s.done(y=s.layer_norm(s.reduce("mean", s.input("x", "N", 7, 6, 64), 1, 2), "n"))


def columns_of_norm() -> ModuleOp:
    s = Sketch("columns_of_norm")
    normed = s.rms_norm(s.input("x", "T", 64), "n")
    return s.done(y=s.fn("sub", normed, s.reduce("mean", normed, 0, keep=True)))


def turned_rows(columns: int = 4096) -> ModuleOp:
    """A kernel of long rows would store each of them apart."""
    s = Sketch("turned_rows")
    return s.done(y=s.permute(s.softmax(s.input("x", "N", "T", columns)), 0, 2, 1))


AGAIN_AND_AGAIN = (heads_of_rows, norm_of_pixels, columns_of_norm, turned_rows)


@pytest.mark.parametrize("make", AGAIN_AND_AGAIN, ids=lambda f: f.__name__)
def test_what_would_be_computed_again_is_stored(make: Callable[[], ModuleOp]) -> None:
    """The graph takes less time, by the model that chose; no reduction is inside of another's."""
    module = make()
    cut, whole = planned(module), planned(module, "legal")
    assert AGAIN in str(cut) and AGAIN not in str(whole)
    sizes = {"T": 1024, "N": 1024}
    assert sum(t.seconds for t in times_of(cut, sizes)) < 0.9 * sum(
        t.seconds for t in times_of(whole, sizes)
    )
    for kernel in kernels(cut):
        assert steps_of(find_loops(kernel).expanded).nested is None


def test_rows_that_are_stored_first_are_stored_rounded() -> None:
    """The kernel of rows ends with them, and a copy turns halves in shared memory."""
    first, second = kernels(planned(turned_rows()))
    assert str(first.outs.data[0].element_type) == "f16"
    assert not any(isinstance(op, ReduceOp | ReduceTogetherOp) for op in second.walk())


def test_rows_of_which_a_block_has_several_are_turned_on_their_way_out() -> None:
    (kernel,) = kernels(planned(turned_rows(1024)))
    assert any(isinstance(op, ReduceOp | ReduceTogetherOp) for op in kernel.walk())


def rows() -> ModuleOp:
    s = Sketch("rows")
    return s.done(y=s.softmax(s.layer_norm(s.input("x", "T", 256), "n")))


def column_sums() -> ModuleOp:
    s = Sketch("column_sums")
    return s.done(y=s.reduce("sum", s.fn("exp", s.input("x", "T", 256)), 0))


@pytest.mark.parametrize("sizes", [(64, "T", 4096), ("T", 64, "N")])
def test_a_mean_and_the_squares_about_it_are_one_kernels(sizes: tuple[int | str, ...]) -> None:
    """Of several axes, which blocks share: they find both while they read once."""
    s = Sketch("batch_norm")
    x = s.input("x", *sizes)
    far = s.fn("sub", x, s.reduce("mean", x, 0, 2, keep=True))
    scale = s.fn("rsqrt", s.reduce("mean", s.fn("mul", far, far), 0, 2, keep=True))
    found = planned(s.done(y=s.fn("mul", far, scale)))
    moments, norm = kernels(found)
    assert len(moments.outs) == 2 and moments_of(moments.yield_op.values) is not None
    assert not any(isinstance(op, ReduceOp) for op in norm.walk())
    name = moments.sym_name.data
    first = next(p for p in find(found, ScheduleOp) if p.region.string_value() == name)
    assert first.stores_sums


@pytest.mark.parametrize("make", [rows, column_sums], ids=lambda f: f.__name__)
def test_what_is_computed_once_stays(make: Callable[[], ModuleOp]) -> None:
    """A family of rows takes rows whole, and one sum is computed once."""
    found = planned(make())
    (kernel,) = kernels(found)
    assert any(isinstance(op, ReduceOp | ReduceTogetherOp) for op in kernel.walk())


# What is moved, and what several kernels compute ----------------------------------------


def rotated(s: Sketch, x: SSAValue) -> SSAValue:
    """The halves of the features change places."""
    return s.fn("add", x, s.concat(2, s.cut(x, 2, 32, 64), s.cut(x, 2, 0, 32)))


def gelu_rotated() -> ModuleOp:
    s = Sketch("gelu_rotated")
    return s.done(y=rotated(s, s.fn("gelu_tanh", s.input("x", 64, "T", 64))))


def norm_padded() -> ModuleOp:
    s = Sketch("norm_padded")
    normed = s.layer_norm(s.input("x", "T", 2048), "n")
    return s.done(y=s.concat(1, normed, s.input("more", "T", 8)))


def heads_merged() -> ModuleOp:
    s = Sketch("heads_merged")
    x = s.permute(s.input("x", 64, "T", 64), 1, 0, 2)
    return s.done(y=s.layer_norm(s.reshape(x, "T", 4096), "n"))


def mean_of_norm() -> ModuleOp:
    """The norm is one kernel's, and the mean and what it is taken from read it."""
    s = Sketch("mean_of_norm")
    normed = s.layer_norm(s.input("x", "T", 2048), "n")
    return s.done(y=s.fn("sub", normed, s.reduce("mean", normed, 0, keep=True)))


def excited() -> ModuleOp:
    """Three reductions inside of each other, of which a kernel may hold two."""
    s = Sketch("excited")
    x = s.input("x", 32, 56, 56, 64)
    mean = s.reduce("mean", x, 1, 2)
    gate = s.fn("sigmoid", s.linear(s.fn("relu", s.linear(mean, "a", 16)), "b", 64))
    return s.done(y=s.fn("mul", x, s.reshape(gate, 32, 1, 1, 64)))


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (gelu_rotated, 2),
        (norm_padded, 2),
        (heads_merged, 2),
        (mean_of_norm, 3),
        (excited, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_read_at_several_places_is_stored(make: Callable[[], ModuleOp], count: int) -> None:
    """Where the model has the graph take less time so; in the values' own type."""
    module = make()
    cut, whole = planned(module), planned(module, "legal")
    assert AGAIN in str(cut) and len(kernels(cut)) == count
    assert sum(t.seconds for t in times_of(cut, {"T": 4096})) < 0.9 * sum(
        t.seconds for t in times_of(whole, {"T": 4096})
    )
    for kernel in kernels(cut):
        stored = [o for o in kernel.outs if len(o.shape) == 3 or o.shape[-1] == Dim.const(4096)]
        assert {str(o.element_type) for o in stored} <= {"f16"}


@pytest.mark.parametrize(
    "make",
    [*AGAIN_AND_AGAIN, gelu_rotated, norm_padded, heads_merged, mean_of_norm],
    ids=lambda f: f.__name__,
)
def test_what_is_stored_is_what_was_computed(make: Callable[[], ModuleOp]) -> None:
    module, sizes = make(), {"T": 5, "N": 3}
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, sizes, 3)
    played = play(planned(module, until="region"), graph.sym_name.data, inputs, sizes)
    assert played is not None
    assert_agree(played, meant(module, inputs, sizes))


def relu_rotated() -> ModuleOp:
    """What is cheap is computed again."""
    s = Sketch("relu_rotated")
    return s.done(y=rotated(s, s.fn("relu", s.input("x", 64, "T", 64))))


def sums_of_scaled() -> ModuleOp:
    """Two kernels scale it each, which takes less than memory does."""
    s = Sketch("sums_of_scaled")
    x = s.fn("mul", s.input("x", "T", 256), s.input("w", 256))
    return s.done(rows=s.reduce("sum", x, 1), columns=s.reduce("sum", x, 0))


@pytest.mark.parametrize("make", [relu_rotated, sums_of_scaled], ids=lambda f: f.__name__)
def test_what_is_cheap_is_computed_where_it_is_read(make: Callable[[], ModuleOp]) -> None:
    assert AGAIN not in str(planned(make()))


def test_a_factor_that_is_a_constant_is_not_computed() -> None:
    """A state that begins as zeros is multiplied by weights, as a recurrence's is."""
    graph = Builder("state", {"w": tensor([Dim.const(8), Dim.const(8)], f32)})
    zeros = graph.expand(graph.constant(0.0), [Dim.const(4), Dim.const(8)])
    made = planned(graph.finish([graph.gemm(zeros, graph.inputs[0])]))
    made.verify()
    assert len(kernels(made)) == 1


def test_a_sum_over_one_point_beside_a_sum_over_more() -> None:
    """The taps of a transposed convolution: axes of one point are all that some sums are over."""
    sizes = {"x": [1, 1, 3, 3], "w": [1, 2, 3, 3]}
    kinds = {n: tensor([Dim.const(d) for d in dims], f32) for n, dims in sizes.items()}
    graph = Builder("taps", kinds)
    x, w = graph.inputs
    made = graph.conv_transpose(x, w, 2, stride=[2, 2], padding=[0, 1, 0, 1])
    for kernel in kernels(planned(graph.finish([made]))):
        kernel.verify()
        assert all(op.labels for op in kernel.walk() if isinstance(op, ReduceOp))


def pooled_norm() -> ModuleOp:
    """The mean over places of what a norm gives, as at the end of a vision transformer."""
    s = Sketch("pooled")
    return s.done(y=s.reduce("mean", s.layer_norm(s.input("x", 32, 49, 768), "norm"), 1))


def test_what_a_reduction_of_norms_is_of_lies_in_memory() -> None:
    """Else each of its steps would reduce a row anew."""
    module = planned(pooled_norm())
    found = kernels(module)
    assert [len(find(kernel, ReduceOp)) for kernel in found] == [2, 1]
    assert sum(time.seconds for time in times_of(module, {})) < 10e-6


def test_squares_of_one_image_are_no_product_of_matrices() -> None:
    """An axis of one point repeats, and a norm of such rows is one kernel all the same."""
    s = Sketch("positions")
    x = s.permute(s.input("x", 1, 512, 1500), 0, 2, 1)
    x = s.fn("add", x, s.input("places", 1500, 512))
    module = planned(s.done(y=s.layer_norm(x, "norm"), z=x))
    assert [len(find(kernel, ReduceOp)) for kernel in kernels(module)][-1] == 2


@pytest.mark.parametrize("length", [4096, 65536, 65535])
def test_a_norm_by_hand_is_one_kernel(length: int) -> None:
    """Its mean keeps its axis, of one point, and what follows has that too."""
    s = Sketch("rms")
    x = s.input("x", 2048, length)
    scale = s.fn("rsqrt", s.reduce("mean", s.fn("mul", x, x), 1, keep=True))
    found = planned(s.done(y=s.fn("mul", x, scale)))
    (kernel,) = kernels(found)
    assert any(isinstance(op, ReduceOp) for op in kernel.walk())


@pytest.mark.parametrize("side", [64, 96])
def test_axes_of_one_size_are_reduced_in_their_order(side: int) -> None:
    """An image's pixels are rows, as those of another shape are: no sum reads it turned."""
    s = Sketch("instance_norm")
    x = s.input("x", 8, 16, side, side)
    far = s.fn("sub", x, s.reduce("mean", x, 2, 3, keep=True))
    scale = s.fn("rsqrt", s.reduce("mean", s.fn("mul", far, far), 2, 3, keep=True))
    (kernel,) = kernels(planned(s.done(y=s.fn("mul", far, scale))))
    assert [axis.size.constant() for axis in kernel.iters] == [128, side * side]


def test_few_rows_that_no_chip_keeps_are_summed_by_all_of_it() -> None:
    s = Sketch("long")
    x = s.input("x", 2, 1 << 26)
    found = planned(s.done(y=s.layer_norm(x, "n")))
    sums, norm = kernels(found)
    assert moments_of(sums.yield_op.values) is not None
    assert not any(isinstance(op, ReduceOp | ReduceTogetherOp) for op in norm.walk())
    plans = find(found, ScheduleOp)
    assert plans[0].stores_sums


def recurrence(steps: int) -> ModuleOp:
    """A state that each step scales and adds to, and the sums of it, as a state space model
    unrolls them."""
    s = Sketch("recurrence")
    scale, given, read = (s.input(name, 2, steps, 64, 16) for name in ("a", "b", "c"))
    found: list[SSAValue] = []
    state: SSAValue | None = None
    for i in range(steps):
        a, b, c = (s.reshape(s.cut(x, 1, i, i + 1), 2, 64, 16) for x in (scale, given, read))
        grown = s.fn("exp", a)
        state = (
            s.fn("mul", grown, b) if state is None else s.fn("add", s.fn("mul", grown, state), b)
        )
        found.append(s.reduce("sum", s.fn("mul", state, c), 2, keep=True))
    return s.done(y=s.concat(2, *found))


@pytest.mark.parametrize("bound", [(2, 16_000), (0, 300)])
def test_what_is_tried_of_a_recurrence_is_bounded(
    bound: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's kernel holds those before it, so that what is stored of one changes the rest."""
    monkeypatch.setattr(reductions, "PATIENCE", bound[0])
    monkeypatch.setattr(reductions, "LEAST", bound[1])
    spent: list[int] = []
    run = reductions.Reductions.run

    def counted(self: reductions.Reductions, kernels: Kernels) -> Kernels:
        forms = [len(kernel.held()) for kernel in kernels.kernels]
        found = run(self, kernels)
        # One way more may have been begun, which changes all kernels at most, before and after.
        assert self.spent <= bound[1] + (bound[0] + 2) * sum(forms)
        spent.append(self.spent)
        return found

    monkeypatch.setattr(reductions.Reductions, "run", counted)
    module = recurrence(8)
    made = planned(module, until="region")
    assert spent and spent[0] > 0
    inputs = make_inputs(only(module, frontend.GraphOp), {}, 3)
    played = play(made, "recurrence", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))


@pytest.mark.parametrize("kind", [f16, f32])
def test_rows_times_vectors_are_one_kernel_of_rows(kind: Attribute) -> None:
    """Each of them was a product of its own, whose rows were read and written again behind it."""
    s = Sketch("crossed", kind)
    x = y = s.input("x", 640, 512)
    for number in range(2):
        weighed = s.gemm(y, s.input(f"w{number}", 512, 1))
        y = s.fn("add", s.fn("mul", x, weighed), y)
    module = s.done(y=y)
    found = planned(module)
    assert [plan.pattern for plan in find(found, ScheduleOp)] == ["rows"]
    inputs = make_inputs(only(module, frontend.GraphOp), {}, 3)
    played = play(found, "crossed", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))


def test_a_concat_times_itself_turned_is_stored_once() -> None:
    """Its parts are too few rows of a tile; it was stored in both orders, to be copied back."""
    s = Sketch("pairs", f32)
    joined = s.concat(1, s.input("x", 512, 1, 64), s.input("w", 512, 26, 64))
    module = s.done(y=s.gemm(joined, joined, turned=True))
    found = kernels(planned(module))
    assert len(found) == 2
    assert [tensor.shape for tensor in found[0].outs] == [tuple(map(Dim.const, (512, 27, 64)))]
    inputs = make_inputs(only(module, frontend.GraphOp), {}, 3)
    played = play(planned(module), "pairs", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))


@pytest.mark.parametrize(("kind", "depth"), [(f16, 8), (f32, 8), (f32, 512)])
def test_weighted_sums_of_few_rows_are_one_kernel(kind: Attribute, depth: int) -> None:
    """They were turned in memory, multiplied in tiles of one row, and turned back."""
    s = Sketch("weighted", kind)
    x, weights = s.input("x", 64, depth, 256), s.softmax(s.input("w", 64, depth))
    turned = s.gemm(s.permute(x, 0, 2, 1), s.reshape(weights, 64, depth, 1))
    module = s.done(y=s.reshape(turned, 64, 256))
    found = planned(module)
    assert "matmul" not in [plan.pattern for plan in find(found, ScheduleOp)]
    read = [op for op in found.walk() if isinstance(op, ReadOp) and len(op.result.type.axes) == 3]
    assert len(read) == 1
    inputs = make_inputs(only(module, frontend.GraphOp), {}, 3)
    played = play(found, "weighted", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))
