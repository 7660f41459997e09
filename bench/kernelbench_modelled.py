"""KernelBench's problems by the model of time, over what the chip must do at the least.

A problem's floor is the larger of two times of an H100: its inputs, parameters and results, each
once, at the rate of a copy, and its products of matrices and convolutions, as PyTorch's counter
has them, on tensor cores in TF32.  The model's time of its kernels over that floor says where
passes over memory or slow kernels are, on a machine without a GPU.  Kernels of constants alone run
once, at load, and are left out.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyc.bench.kernelbench_races import leaves
from polyc.cost.device import H100
from polyc.cost.time import modelled
from polyc.importers.registry import library
from polyc.test.support import kernelbench as kb
from polyc.test.support.kernelbench import Posed
from polyc.test.support.zoo_times import off_tensor

TENSOR = H100.tensor_peak
"""Multiplications and additions of f16 in a second; of TF32 half as many."""

SLOW = 0.8
"""Of torch.compile's speed: what is below it is slow."""


def floor_of(torch: Any, model: Any, given: Sequence[Any]) -> dict[str, float]:
    """The bytes and the products that a model cannot do without, and the microseconds of these."""
    fake: Any = library("torch._subclasses.fake_tensor", "torch")
    counter: Any = library("torch.utils.flop_counter", "torch")
    model.requires_grad_(False)  # or the counter asks views of parameters for their gradients
    with torch.no_grad(), fake.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        inputs = [mode.from_tensor(x) if torch.is_tensor(x) else x for x in given]
        with counter.FlopCounterMode(display=False) as counted:
            found = model(*inputs)
    tensors = [*kb.tensors_of(torch, given), *model.parameters(), *leaves(torch, found)]
    moved = sum(x.numel() * x.element_size() for x in tensors)
    products = counted.get_total_flops()
    wide = any(x.dtype == torch.float32 for x in model.parameters()) or not any(
        x.dtype in (torch.float16, torch.bfloat16) for x in tensors
    )
    least = max(moved / H100.memory, products / (TENSOR / 2 if wide else TENSOR))
    return {"bytes": moved, "flops": products, "floor_us": round(least * 1e6, 2)}


def row_of(problem: Posed) -> dict[str, Any]:
    """A problem's row: its floor, the model's time, and its kernels from the slowest on."""
    torch = library("torch", "torch")
    row: dict[str, Any] = {"case": problem.name}
    try:
        model, given = kb.model_of(problem)
        row |= floor_of(torch, model, given)
        begun = time.process_time()
        imported = kb.imported(model, given)
        row["seconds_of_import"] = round(time.process_time() - begun, 2)
        begun = time.process_time()
        job = kb.planned(imported)
        row["seconds_of_plans"] = round(time.process_time() - begun, 2)
        kernels: list[dict[str, Any]] = []
        for kernel, plan in kb.regions(job):
            said = modelled(kernel, plan, {}, H100)
            one = {"kernel": f"{kernel.sym_name.data}_{said.variant}", "family": plan.pattern}
            one |= {"us": round(said.seconds * 1e6, 2), "bound": said.bound}
            kernels.append(one | ({"products": "in loops"} if off_tensor(kernel, plan) else {}))
    except Exception as error:  # One that fails must not stop the others.
        return row | {"why": f"{type(error).__name__}: {str(error)[:300]}"}
    whole = sum(one["us"] for one in kernels)
    slow = [one for one in kernels if one["kernel"].endswith("_scalar")]
    row |= {
        "us": round(whole, 2),
        "over_floor": round(whole / row["floor_us"], 2),
        "kernels": sorted(kernels, key=lambda one: -one["us"]),
        "in_loops": round(_share(kernels, "loops", whole), 3),
        "products_in_loops": round(
            sum(one["us"] for one in kernels if "products" in one) / whole, 3
        )
        if whole
        else 0.0,
        "scalar": round(sum(one["us"] for one in slow) / whole, 3) if whole else 0.0,
    }
    return row


def _share(kernels: Sequence[Mapping[str, Any]], family: str, whole: float) -> float:
    """The part of the time that a family's kernels take."""
    own = sum(one["us"] for one in kernels if one["family"] == family)
    return own / whole if whole else 0.0


def raced(folder: Path) -> dict[str, dict[str, Any]]:
    """The latest row of each problem of the races in a folder of results."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("kernelbench-sm_90-*.json")):
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            found[row["case"]] = row
    return found


def joined(rows: Sequence[dict[str, Any]], races: Mapping[str, Mapping[str, Any]]) -> None:
    """Put into rows what a race measured of them: microseconds, and torch.compile's over ours."""
    for row in rows:
        race = races.get(row["case"])
        if race is not None:
            row["raced_us"] = race["us"]["polyc"]
            if "over_compile" in race:
                row["raced_over_compile"] = race["over_compile"]


def ranks(values: Sequence[float]) -> list[float]:
    """The places of values in their order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    for place, at in enumerate(order):
        found[at] = float(place)
    return found


def calibration(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How the model's times and its order do beside what was raced."""
    both = [row for row in rows if "us" in row and "raced_us" in row]
    if len(both) < 2:
        yield "no two problems were raced"
        return
    off = sorted(row["raced_us"] / row["us"] for row in both)
    yield (
        f"measured over modelled: {len(both)} problems, geometric mean "
        f"{statistics.geometric_mean(off):.2f}, half of them in "
        f"{off[len(off) // 4]:.2f} to {off[-1 - len(off) // 4]:.2f}, "
        f"all in {off[0]:.2f} to {off[-1]:.2f}"
    )
    known = [row for row in both if "raced_over_compile" in row]
    if len(known) < 2:
        return
    order = statistics.correlation(
        ranks([row["over_floor"] for row in known]),
        ranks([1 / row["raced_over_compile"] for row in known]),
    )
    yield f"rank correlation of time over floor with time over torch.compile's: {order:.2f}"
    slow = [row["raced_over_compile"] < SLOW for row in known]
    places = sorted(known, key=lambda row: -row["over_floor"])
    first = places[: len(known) // 4]
    found = sum(row["raced_over_compile"] < SLOW for row in first)
    yield f"{found} of {sum(slow)} slow ones are in the first fourth by time over floor"


def line(row: Mapping[str, Any]) -> str:
    """A row for the reader."""
    if "why" in row:
        return f"{row['case'][:60]:60} {row['why']}"
    kernels = ", ".join(f"{one['kernel']} {one['us']:.0f}" for one in row["kernels"][:4])
    race = f"{row['raced_us']:8.0f}" if "raced_us" in row else 8 * " "
    race += f" {row['raced_over_compile']:5.2f}" if "raced_over_compile" in row else 6 * " "
    return (
        f"{row['case'][:60]:60} {row['over_floor']:6.2f} {row['us']:8.0f} of {row['floor_us']:8.0f}"
        f" raced {race} loops {row['in_loops']:4.0%} scalar {row['scalar']:4.0%}"
        f" {len(row['kernels']):2} kernels: {kernels}"
    )
