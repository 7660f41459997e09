"""Calls of jitted functions with PyTorch's tensors: again, elsewhere, in graphs, in threads.

Needs one GPU and PyTorch.  Inputs are small integers, so that every result is exact.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import polyc
from polyc import PolycError, Tensor
from polyc import tile as T
from polyc.runtime import compiled_calls, torch_guards, torch_layout
from polyc.runtime.packed import Packed
from polyc.runtime.program import ALLOCATING, PLAIN
from polyc.test.support.fast_extension import extension
from polyc.tools.jit.compiled import Compiled

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

M, N = T.sizes("M", "N")

SLEEP = 50_000_000
"""Cycles: some 25 ms."""


@polyc.jit
def layer(x: Tensor["M", "K", "f16"], w: Tensor["N", "K", "f16"], b: Tensor["N", "f16"]):
    return polyc.relu(x @ w.T + b)


@polyc.jit
def added(x: Tensor["M", "N", "f32"], y: Tensor["M", "N", "f32"]):
    return x + y


@polyc.jit
def both(x: Tensor["M", "N", "f32"], y: Tensor["M", "N", "f32"]):
    return {"sum": x + y, "rows": (x * y).sum(1)}


def whole(*shape: int, dtype: Any = None, device: str = "cuda") -> Any:
    return torch.randint(-2, 3, shape, device=device).to(dtype or torch.float32)


def operands(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    return tuple(whole(*shape, dtype=torch.float16) for shape in ((m, k), (n, k), (n,)))


def meant(x: Any, w: Any, b: Any) -> Any:
    return torch.relu(x.float() @ w.float().T + b.float()).half()


def kept(made: Compiled) -> int:
    """Calls that are run again without being checked."""
    program = made.program(0)
    return sum(len(program.repeated(kind)._calls) for kind in (PLAIN, ALLOCATING))


def never_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a call that would be checked is an error."""

    def checked(*given: Any, **named: Any) -> None:
        raise AssertionError("this call is checked again")

    from polyc.runtime.signature import HostSignature

    monkeypatch.setattr(HostSignature, "views", checked)


# Again -------------------------------------------------------------------------------------


def test_other_tensors_of_known_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through tensor maps: each address has its own."""
    shapes = [(128, 256, 64), (256, 128, 128), (130, 264, 72)]
    for shape in shapes:
        x, w, b = operands(*shape)
        layer(x, w, b)
        layer(x, w, b, out=torch.empty(shape[0], shape[1], dtype=torch.float16, device="cuda"))
    never_checked(monkeypatch)
    for _ in range(12):
        for shape in shapes:
            x, w, b = operands(*shape)
            assert torch.equal(layer(x, w, b), meant(x, w, b))
            out = torch.full((shape[0], shape[1]), 7.0, dtype=torch.float16, device="cuda")
            for _ in range(2):
                assert layer(x, w, b, out=out) is out
            assert torch.equal(out, meant(x, w, b))


def test_outputs_by_name_and_tensors_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = whole(33, 40), whole(33, 40)
    out = {"rows": torch.empty(33, device="cuda"), "sum": torch.empty(33, 40, device="cuda")}
    both(x, y)
    both(x, y, out=out)
    never_checked(monkeypatch)
    for other in (y, x):
        found = both(x, other)
        assert torch.equal(found["sum"], x + other)
        assert torch.equal(found["rows"], (x * other).sum(1))
        both(x, other, out=out)
        assert torch.equal(out["sum"], x + other) and torch.equal(out["rows"], found["rows"])


def test_a_parameter_and_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    x = whole(8, 8)
    weight = torch.nn.Parameter(whole(8, 8), requires_grad=False)
    added(x, weight)
    added(x, x)
    with torch.inference_mode():
        added(whole(8, 8), x)
    never_checked(monkeypatch)
    for _ in range(3):
        assert torch.equal(added(x, weight), x + weight)
        with torch.inference_mode():
            inside = whole(8, 8)
            assert torch.equal(added(inside, x), inside + x)
        with torch.no_grad():
            assert torch.equal(added(x, x), x + x)


def test_pytorch_has_the_guards_that_are_asked() -> None:
    if not torch.__version__.startswith(torch_guards.TRIED):
        pytest.skip(f"guards were not tried with PyTorch {torch.__version__}")
    make = torch_guards.maker(torch)
    assert make is not None
    x, y = whole(8, 8), whole(8, 8)
    check = make([x, y])
    assert check(y, x) and check(whole(8, 8), x)
    for other in (x.half(), x.t()[:, :4], x.cpu(), torch._neg_view(x), x.clone().requires_grad_()):
        assert not check(other, y) and not check(x, other)
    if torch.cuda.device_count() > 1:
        assert not check(x.to("cuda:1"), y) and not check(x, y.to("cuda:1"))


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The extension of the compiled backend, installed or built."""
    monkeypatch.setitem(sys.modules, "polyc_fast", extension())
    compiled_calls.extension.cache_clear()
    yield
    compiled_calls.extension.cache_clear()


def test_the_compiled_backend_takes_other_tensors(
    fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On streams, in a graph, in threads, and with outputs of its own."""

    def scaled(x: Tensor["M", "K", "f16"], w: Tensor["N", "K", "f16"], b: Tensor["N", "f16"]):
        return polyc.relu(x @ w.T + b)

    call = polyc.compile(scaled, execution_backend="compiled")
    shapes = [(128, 256, 64), (256, 128, 128), (130, 264, 72)]

    def both_ways() -> None:
        for shape in shapes:
            x, w, b = operands(*shape)
            want, out = meant(x, w, b), torch.zeros(*shape[:2], dtype=torch.float16, device="cuda")
            assert torch.equal(call(x, w, b), want)
            assert call(x, w, b, out=out) is out and torch.equal(out, want)

    for _ in range(3):
        both_ways()
    program = call.program(0)
    for kind in (PLAIN, ALLOCATING):
        # From here on Python's half would be an error.
        repeated = program.repeated(kind)
        assert repeated.compiled is not repeated.run
    never_checked(monkeypatch)
    monkeypatch.setattr(Packed, "move", None)
    for _ in range(5):
        both_ways()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    both_ways()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    x, w, b = operands(*shapes[0])
    out = torch.zeros(*shapes[0][:2], dtype=torch.float16, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(x, w, b, out=out)
    for _ in range(2):
        for tensor, new in zip((x, w, b), operands(*shapes[0]), strict=True):
            tensor.copy_(new)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, meant(x, w, b))


def test_what_changes_a_tensor_in_place_is_seen(fast: None) -> None:
    """Its memory shows it (2.11), or PyTorch is asked: see runtime/torch_layout.py."""
    add = polyc.compile(added.function, execution_backend="compiled")
    calls = compiled_calls.extension()
    assert calls is not None and torch_layout.layout(torch) is not None

    def other(one: Any, value: Any) -> None:
        one.data = value

    changes: list[tuple[Callable[[Any], object], str]] = [
        (lambda one: one.copy_(whole(16, 16)), ""),
        (lambda one: one.set_(whole(16, 16)), ""),
        (lambda one: other(one, whole(16, 16)), ""),
        (lambda one: torch.utils.swap_tensors(one, whole(16, 16)), ""),
        (lambda one: one.requires_grad_(), "x cannot be"),
        (lambda one: one.t_(), "x of shape"),
        (lambda one: one.resize_(8, 16), "x is 8|is 16"),
        (lambda one: other(one, torch._neg_view(one)), "resolve_neg"),
    ]
    for change, sentence in changes:
        x, y, out = whole(16, 16), whole(16, 16), torch.empty(16, 16, device="cuda")
        for _ in range(4):
            assert torch.equal(add(x, y, out=out), x + y)
        change(x)
        for _ in range(4):
            if sentence:
                with pytest.raises(PolycError, match=sentence):
                    add(x, y, out=out)
            else:
                assert torch.equal(add(x, y, out=out), x + y)


@pytest.mark.parametrize("way", ["guards", "attributes", "compiled"])
def test_what_differs_is_refused_after_calls_that_were_right(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, way: str
) -> None:
    if way == "compiled":
        request.getfixturevalue("fast")
    if way == "attributes":
        monkeypatch.setattr(torch_guards, "maker", lambda torch: None)
    backend = "compiled" if way == "compiled" else "cuda"
    add = polyc.compile(added.function, execution_backend=backend)
    x, y, out = whole(16, 16), whole(16, 16), torch.empty(16, 16, device="cuda")
    cases: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: add(x.half(), y, out=out), "TypeMismatch", "x holds f16"),
        (lambda: add(x.t(), y, out=out), "NotContiguous", "x of shape"),
        (lambda: add(x, whole(16, 32)[:, :16], out=out), "NotContiguous", "y of shape"),
        (lambda: add(x, y[:15], out=out), "ShapeMismatch", "dimension 0 of y is 15"),
        (lambda: add(x, y, out=y), "Overlap", "share memory"),
        (lambda: add(x, y, out=torch.cat([x, y]).view(-1)[1:257].view(16, 16)), "", ""),
        (lambda: add(torch._neg_view(x), y, out=out), "BadArgument", "resolve_neg"),
        (lambda: add(x.clone().requires_grad_(), y, out=out), "BadArgument", "x cannot be"),
        (lambda: add(x, y.cpu(), out=out), "DeviceMismatch", "y: host"),
        (lambda: add(x, y.to_sparse(), out=out), "BadArgument", ""),
    ]
    for call, kind, sentence in cases:
        for _ in range(2):
            add(x, y, out=out)
            assert torch.equal(out, x + y)
        if not kind:
            assert torch.equal(call(), x + y)
            continue
        for _ in range(2):
            with pytest.raises(PolycError) as caught:
                call()
            assert caught.value.kind == kind and sentence in caught.value.message


def test_offsets_and_views() -> None:
    """A view that begins elsewhere is taken at any address that its elements may have."""
    space = whole(4096)
    for offset in (0, 1, 2, 3, 4, 64, 1, 0):
        x, y = space[offset : offset + 256].view(16, 16), space[1024:1280].view(16, 16)
        assert torch.equal(added(x, y), x + y)
        rows = space[2048:2560].view(32, 16)[offset % 16 : offset % 16 + 16]
        assert torch.equal(added(rows, y), rows + y)


def test_empty_sizes_return_at_once() -> None:
    for _ in range(3):
        found = added(torch.empty(0, 8, device="cuda"), torch.empty(0, 8, device="cuda"))
        assert found.shape == (0, 8)
        x, w, b = operands(0, 64, 32)
        assert layer(x, w, b).shape == (0, 64)
        x, w, b = operands(8, 64, 0)
        assert torch.equal(layer(x, w, b), torch.relu(b).expand(8, 64))


# Streams, graphs and threads ---------------------------------------------------------------


def test_the_current_stream_is_that_of_each_call() -> None:
    x, y = whole(64, 64), whole(64, 64)
    out, late = torch.zeros(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")
    added(x, y, out=out)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for i, stream in enumerate(streams * 3):
        torch.cuda.synchronize()
        late.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLEEP)
            late.copy_(x)
            (added(late, y, out=out) if i % 2 else out.copy_(added(late, y)))
        stream.synchronize()
        assert torch.equal(out, x + y)
        out.zero_()


@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_of_a_jitted_function(warm: bool) -> None:
    """Its launches keep their addresses while calls go on elsewhere; it may be its first call."""

    def scaled(x: Tensor["M", "K", "f16"], w: Tensor["N", "K", "f16"], b: Tensor["N", "f16"]):
        return polyc.relu(x @ w.T + b)

    call = polyc.compile(scaled)
    x, w, b = operands(256, 128, 64)
    out = torch.zeros(256, 128, dtype=torch.float16, device="cuda")
    if warm:
        call(x, w, b, out=out)
    else:
        call.warm(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(x, w, b, out=out)
        inside = call(x, w, b)
    for _ in range(3):
        other = operands(256, 128, 64)
        assert torch.equal(call(*other), meant(*other))
        for tensor, new in zip((x, w, b), operands(256, 128, 64), strict=True):
            tensor.copy_(new)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, meant(x, w, b)) and torch.equal(inside, out)


def test_many_threads_call_one_function() -> None:
    shapes = [(128, 256, 64), (64, 64, 64), (130, 264, 72)]
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for j in range(40):
                    x, w, b = operands(*shapes[(i + j) % 3])
                    want = meant(x, w, b)
                    assert torch.equal(layer(x, w, b), want)
                    out = torch.empty_like(want)
                    assert torch.equal(layer(x, w, b, out=out), want)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_two_gpus_in_turn() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    for i in range(8):
        x, y = (whole(64, 64, device=f"cuda:{i % 2}") for _ in range(2))
        found = added(x, y)
        assert found.device == x.device and torch.equal(found, x + y)
        assert torch.cuda.current_device() == 0
    with pytest.raises(PolycError) as caught:
        added(x, y.to("cuda:0"))
    assert caught.value.kind == "DeviceMismatch"


def test_a_closed_program_begins_anew() -> None:
    call = polyc.compile(added.function)
    x, y = whole(64, 64), whole(64, 64)
    for _ in range(3):
        for _ in range(2):
            assert torch.equal(call(x, y), x + y)
        assert kept(call) == 1
        call.program(0).close()
        assert kept(call) == 0


# Operators and races -----------------------------------------------------------------------


def test_torch_compile_takes_an_operator_without_a_break() -> None:
    operator = polyc.torch_op(layer, "gpu_test_layer")

    def model(x: Any, w: Any, b: Any) -> Any:
        return operator(x, w, b) * 2

    fast = torch.compile(model, fullgraph=True, dynamic=True)
    for shape in [(64, 64, 64), (128, 64, 32)]:
        x, w, b = operands(*shape)
        assert torch.equal(fast(x, w, b), meant(x, w, b) * 2)
    torch.library.opcheck(operator, operands(64, 64, 64), test_utils=["test_schema"])


def test_autotune_races_on_the_gpu(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("POLYC_CACHE", raising=False)

    def fresh() -> Any:
        @polyc.autotune([{"width": 32}, {"width": 64}], key=["N"])
        @polyc.jit(arch="sm_80")
        def twice(x: T.Tensor[M, N, T.f32], y: T.Out[M, N, T.f32], *, width=32):
            """Each block takes 16 rows of ``width`` columns into registers and back."""
            with T.kernel(threads=128, grid=[T.ceildiv(M, 16), T.ceildiv(N, width)]):
                block = T.block_id()
                across = T.ceildiv(N, width)
                m, n = block // across, block % across
                tile = T.alloc_fragment((16, width), T.f32)
                T.copy(x[m * 16, n * width], tile)
                with T.parallel(16, width) as (i, j):
                    tile[i, j] = tile[i, j] * 2.0
                T.copy(tile, y[m * 16, n * width])

        return twice

    call, x = fresh(), whole(64, 256)
    assert torch.equal(call(x), x + x)
    assert [len(times) for times in call.times.values()] == [2]
    assert all(time > 0 for times in call.times.values() for time in times)
    again = fresh()
    assert torch.equal(again(x), x + x)
    assert not again.times and again.best(x) == call.best(x)
