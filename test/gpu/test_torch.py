"""PyTorch tensors in place: streams, misaligned addresses, nothing written outside (J1, J3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")
GUARD = 1024
"""Elements before and after an output that must keep their value."""


def on_gpu(arrays: list[Any]) -> list[Any]:
    return [torch.from_numpy(a.view(np.int16)).cuda().view(torch.float16) for a in arrays]


def to_numpy(tensor: Any) -> Any:
    return tensor.cpu().numpy()


def placed(tensor: Any, offset: int) -> Any:
    """A copy that starts ``offset`` elements into an allocation."""
    space = torch.empty(tensor.numel() + offset + 8, dtype=tensor.dtype, device="cuda")
    view = space[offset : offset + tensor.numel()].view(tensor.shape)
    view.copy_(tensor)
    return view


@pytest.mark.parametrize("arch", ARCHS)
def test_tensors_are_used_in_place(build: Build, gemm: Any, arch: str) -> None:
    arrays = gemm.inputs("f16", 130, 264, 72)
    program = build(gemm.text("f16"), arch)
    inputs = on_gpu(arrays)
    (out,) = program.run(inputs)
    result: Any = out
    assert result.is_cuda and result.dtype == torch.float16
    gemm.equal(to_numpy(result), gemm.reference(*arrays), "f16")
    given = torch.empty_like(result)
    assert program.run(inputs, out=[given])[0] is given
    assert torch.equal(given, result)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 47, 29), (129, 257, 65), (130, 264, 72)])
@pytest.mark.parametrize("offset", [0, 1, 2, 8])
def test_nothing_is_written_outside(
    build: Build, gemm: Any, arch: str, shape: tuple[int, int, int], offset: int
) -> None:
    """The output lies in a guarded allocation, at each alignment."""
    m, n, _ = shape
    arrays = gemm.inputs("f16", *shape)
    program = build(gemm.text("f16"), arch)
    space = torch.full((m * n + 2 * GUARD,), -7.0, dtype=torch.float16, device="cuda")
    start = GUARD + offset
    out = space[start : start + m * n].view(m, n)
    for variant in (None, *program.variants):
        out.fill_(float("nan"))
        try:
            program.run(on_gpu(arrays), out=[out], variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant" and variant is not None
            continue
        gemm.equal(to_numpy(out), gemm.reference(*arrays), "f16")
        assert (space[:start] == -7.0).all()
        assert (space[start + m * n :] == -7.0).all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "offsets", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 0, 0), (0, 2, 2), (4, 4, 4)]
)
def test_misaligned_addresses_take_another_variant(
    build: Build, gemm: Any, arch: str, offsets: tuple[int, int, int]
) -> None:
    """Sizes fit the widest access, the addresses do not."""
    arrays = gemm.inputs("f16", 130, 264, 72)
    program = build(gemm.text("f16"), arch)
    inputs = [placed(t, o) for t, o in zip(on_gpu(arrays), offsets, strict=True)]
    (out,) = program.run(inputs)
    gemm.equal(to_numpy(out), gemm.reference(*arrays), "f16")


@pytest.mark.parametrize("arch", ARCHS)
def test_what_lies_beside_the_inputs_is_not_read_into_the_result(
    build: Build, gemm: Any, arch: str
) -> None:
    """Inputs are slices of allocations full of NaN."""
    for shape in ((33, 47, 29), (65, 40, 24), (130, 264, 72), (5, 8, 0)):
        arrays = gemm.inputs("f16", *shape)
        program = build(gemm.text("f16"), arch)
        inputs: list[Any] = []
        for tensor in on_gpu(arrays):
            size = tensor.numel()
            space = torch.full((size + 4096,), float("nan"), dtype=torch.float16, device="cuda")
            view = space[2048 : 2048 + size].view(tensor.shape)
            view.copy_(tensor)
            inputs.append(view)
        for variant in (None, *program.variants):
            try:
                (out,) = program.run(inputs, variant=variant)
            except PolycError as error:
                assert error.kind == "NoVariant" and variant is not None
                continue
            gemm.equal(to_numpy(out), gemm.reference(*arrays), "f16")


def test_the_current_stream_is_used(build: Build, gemm: Any) -> None:
    """A launch on a side stream comes after that stream's work."""
    arrays = gemm.inputs("f16", 256, 256, 256)
    program = build(gemm.text("f16"), "sm_80")
    inputs = on_gpu(arrays)
    late = torch.zeros_like(inputs[0])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(inputs[0])
        (out,) = program.run([late, *inputs[1:]])
    stream.synchronize()
    gemm.equal(to_numpy(out), gemm.reference(*arrays), "f16")


def test_a_kept_launch_follows_new_tensors_and_sizes(build: Build, gemm: Any) -> None:
    program = build(gemm.text("f16"), "sm_80")
    for seed, shape in enumerate([(64, 64, 64), (64, 64, 64), (128, 64, 64), (64, 64, 64)]):
        arrays = gemm.inputs("f16", *shape, seed)
        (out,) = program.run(on_gpu(arrays))
        gemm.equal(to_numpy(out), gemm.reference(*arrays), "f16")


def test_host_checks(build: Build, gemm: Any) -> None:
    program = build(gemm.text("f16"), "sm_80")
    a, b, bias = on_gpu(gemm.inputs("f16", 16, 24, 32))
    cases = [
        ([a.float(), b, bias], "TypeMismatch", "A holds f32"),
        ([a.t(), b, bias], "NotContiguous", "A of shape [32, 16] has strides [1, 32]"),
        ([a, b.cpu(), bias], "DeviceMismatch", "B: host"),
        ([a, b[:31], bias], "ShapeMismatch", "dimension 0 of B is 31"),
        ([a, b, bias.clone().requires_grad_()], "BadArgument", "bias cannot be exported by DLPack"),
    ]
    for inputs, kind, sentence in cases:
        with pytest.raises(PolycError) as caught:
            program.run(inputs)
        assert caught.value.kind == kind
        assert sentence in caught.value.message
