"""A hardware op touches three files of one name: its definition, its printing, its simulation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest
from xdsl.irdl import IRDLOperation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware import HARDWARE_OPS
from polyc.lowering import gpu_to_cuda
from polyc.lowering.gpu_to_cuda.writer import PRINTERS
from polyc.playback.gpu import translate
from polyc.playback.gpu.translator import TRANSLATORS
from polyc.test.support.root import ROOT

DEFINED, PRINTED, SIMULATED = "dialects/gpu/hardware", "lowering/gpu_to_cuda", "playback/gpu"
HELPERS = {"__init__", "checks"}
"""Files among the definitions that define no op."""

GROUPS = sorted({p.stem for p in (ROOT / DEFINED).glob("*.py")} - HELPERS)


def module(folder: str, group: str) -> str:
    return f"polyc.{folder.replace('/', '.')}.{group}"


def elsewhere(folder: str, table: Mapping[type, Any]) -> list[str]:
    """The hardware ops whose function in ``table`` is not in the folder's file of their group."""
    found: list[str] = []
    for op in HARDWARE_OPS:
        group = op.__module__.rpartition(".")[2]
        function = table.get(op)
        if function is None or function.__module__ != module(folder, group):
            found.append(op.name)
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_three_files(group: str) -> None:
    for folder in (DEFINED, PRINTED, SIMULATED):
        assert (ROOT / folder / f"{group}.py").is_file(), folder


def test_every_op_is_defined_in_a_group() -> None:
    homes = {group: vars(import_module(module(DEFINED, group))) for group in GROUPS}
    defined = {
        thing
        for group, names in homes.items()
        for thing in names.values()
        if isinstance(thing, type)
        and issubclass(thing, IRDLOperation)
        and thing.__module__ == module(DEFINED, group)
    }
    assert defined == set(HARDWARE_OPS)


def test_every_op_is_printed_and_simulated_in_the_files_of_its_group() -> None:
    for folder, imported in ((PRINTED, gpu_to_cuda.PRINTERS), (SIMULATED, translate.GROUPS)):
        assert {module(folder, group) for group in GROUPS} <= {m.__name__ for m in imported}
    assert elsewhere(PRINTED, PRINTERS) == []
    assert elsewhere(SIMULATED, TRANSLATORS) == []


def test_an_op_at_the_wrong_place_is_seen() -> None:
    tables = ((PRINTED, dict[type, Any](PRINTERS)), (SIMULATED, dict[type, Any](TRANSLATORS)))
    for folder, table in tables:
        table[hw.ElectOp] = table[hw.ShuffleOp]
        del table[hw.BarrierOp]
        assert elsewhere(folder, table) == ["gpu.elect", "gpu.barrier"]
