"""Parameter files: what is written is read, and a file with a wrong byte is refused or harmless."""

# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.safetensors import SafeTensors, read_params, write_params
from polyc.test.support.turns import examples

KINDS = (np.float16, np.float32, ml_dtypes.bfloat16, np.bool_)


def file(tmp_path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(begin: int, end: int, shape: Any = None, dtype: Any = "F32") -> dict[str, Any]:
    shape = [(end - begin) // 4] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@settings(max_examples=examples(30), deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=8).filter(
            lambda name: name != "__metadata__" and name.isprintable()
        ),
        st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4), max_size=3)),
        max_size=5,
    )
)
def test_what_is_written_is_read(shapes: dict[str, Any]) -> None:
    dice = np.random.default_rng(0)
    made = {name: (dice.random(s) * 4 - 2).astype(k) for name, (k, s) in shapes.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        write_params(path, made)
        found = read_params(path)
        assert set(found) == set(made) and len(found) == len(made)
        for name, array in made.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape
            assert (found[name] == array).all()
            assert found[name].flags.writeable
        assert os.listdir(folder) == [path.name]


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write_params(path, {"b": np.array([True]), "w": np.float32(1), "h": np.ones(2, np.float16)})
    header = (
        b'{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]},'
        b'"h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},'
        b'"b":{"dtype":"BOOL","shape":[1],"data_offsets":[8,9]}}'
    )
    header += b" " * (-len(header) % 8)
    data = bytes.fromhex("0000803f 003c003c 01")
    assert path.read_bytes() == struct.pack("<Q", len(header)) + header + data


def test_other_element_types_are_known_and_not_taken(tmp_path: Path) -> None:
    header = {"i": entry(0, 16, [2], "C64"), "__metadata__": {"format": "pt"}}
    found = read_params(file(tmp_path, header, bytes(16)))
    assert found.file.entries["i"].element == "c64"
    with pytest.raises(PolycError, match="holds c64; programs have f16"):
        found["i"]


HUGE = 1 << 63


@pytest.mark.parametrize(
    ("header", "data", "why"),
    [
        (b"[]", 0, "does not begin with {"),
        (b"{", 0, "a header that is not as the format says"),
        (b'{"a":' + b"[" * 100_000, 0, "a header that is not as the format says"),
        (b"{\xff}", 0, "a header that is not as the format says"),
        (b'{"a":1,"a":2}', 0, "'a' is there twice"),
        (b'{"a":NaN}', 0, "NaN is no JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", 0, "a header that is not as the format says"),
        ({"__metadata__": {"a": 1}}, 0, "__metadata__ that is no object of texts"),
        ({"a": 1}, 0, "whose header is not data_offsets, dtype, shape"),
        ({"a": entry(0, 4) | {"more": 1}}, 4, "whose header is not"),
        ({"a": entry(0, 4, dtype="F31")}, 4, "of element type 'F31'"),
        ({"a": entry(0, 4, dtype=["F32"])}, 4, "of element type"),
        ({"a": entry(0, 4, [-1])}, 4, "of shape [-1]"),
        ({"a": entry(0, 4, [True])}, 4, "of shape [True]"),
        ({"a": entry(0, 4, [1.0])}, 4, "of shape [1.0]"),
        ({"a": entry(0, 4, [HUGE, HUGE])}, 4, "of shape"),
        ({"a": entry(0, 4, [1 << 40, 1 << 40])}, 4, "elements of 4 bytes, and 4 bytes"),
        ({"a": entry(0, 4, [HUGE, 0])}, 4, "of shape"),
        ({"a": entry(0, 4, [2])}, 4, "of 2 elements of 4 bytes, and 4 bytes from 0 to 4"),
        ({"a": entry(4, 0, [1])}, 4, "at [4, 0]"),
        ({"a": entry(-4, 0, [1])}, 4, "at [-4, 0]"),
        ({"a": entry(0, HUGE, [1])}, 4, "at [0,"),
        ({"a": entry(0, 1 << 60, [1 << 58])}, 4, "and the file has 4 of elements"),
        ({"a": entry(0, 8)}, 4, "end at byte 8, and the file has 4"),
        (
            {"a": entry(0, 8), "b": entry(4, 12)},
            12,
            "elements of 'b' from byte 4 on, which overlap",
        ),
        ({"a": entry(0, 4), "b": entry(0, 4)}, 4, "which overlap"),
        ({"a": entry(0, 4), "b": entry(8, 12)}, 12, "which leave out"),
        ({"a": entry(0, 4)}, 8, "has 4 bytes that are no tensor's at its end"),
    ],
)
def test_a_header_that_is_wrong_is_refused(
    tmp_path: Path, header: Any, data: int, why: str
) -> None:
    path = file(tmp_path, header, bytes(data))
    with pytest.raises(PolycError) as caught:
        SafeTensors(path)
    assert caught.value.kind == "BadParameterFile" and why in caught.value.message
    assert len(caught.value.message) < 600


@pytest.mark.parametrize("data", [b"", b"1234567", struct.pack("<Q", 1), b"\xff" * 8, bytes(8)])
def test_a_file_that_is_cut_is_refused(tmp_path: Path, data: bytes) -> None:
    (path := tmp_path / "m").write_bytes(data)
    with pytest.raises(PolycError, match="BadParameterFile"):
        SafeTensors(path)


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with pytest.raises((PolycError, OSError)):
            SafeTensors(path)
    with pytest.raises(OSError, match="No such file"):
        SafeTensors(tmp_path / "nothing")


def test_a_file_that_changes_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write_params(path, {"w": np.ones(100_000, np.float32)})
    found = read_params(path)
    os.truncate(path, 5000)
    with pytest.raises(PolycError, match="has become shorter since it was opened: it ends at byte"):
        found["w"]


def test_a_file_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write_params(path, {"w": np.zeros(2, np.float32)})
    first = read_params(path)
    write_params(path, {"w": np.ones(2, np.float32)})
    second = read_params(path)
    assert first["w"].tolist() == [0, 0] and second["w"].tolist() == [1, 1]
    assert first.file.identity != second.file.identity
    assert read_params(path).file.identity == second.file.identity


def test_conditions_are_0_or_1(tmp_path: Path) -> None:
    found = read_params(file(tmp_path, {"c": entry(0, 3, [3], "BOOL")}, b"\0\1\2"))
    with pytest.raises(PolycError, match="neither 0 nor 1"):
        found["c"]


@pytest.mark.parametrize("name", ["", "__metadata__", "a\nb", "\ud800"])
def test_names_that_a_file_cannot_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolycError, match="BadArgument"):
        write_params(tmp_path / "m", {name: np.zeros(1, np.float32)})
    assert not list(tmp_path.iterdir())


def test_a_tensor_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    for wrong in (np.zeros(2, np.complex64), np.ma.masked_array([1.0]), "text"):
        with pytest.raises(PolycError):
            write_params(tmp_path / "m", {"w": wrong})
    assert not list(tmp_path.iterdir())


DICE = np.random.default_rng(0)
GOOD = {
    "layer.weight": DICE.random((3, 4)).astype(np.float32),
    "layer.bias": DICE.random(3).astype(np.float16),
    "mask": np.array([True, False, True]),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "m"
    write_params(path, GOOD)
    return path.read_bytes()


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 400), st.integers(0, 255)),
        st.tuples(st.just("cut"), st.integers(0, 400), st.integers(1, 40)),
        st.tuples(st.just("put"), st.integers(0, 400), st.integers(0, 255)),
        st.tuples(st.just("digit"), st.integers(0, 40), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(200), deadline=None)
@given(EDITS)
def test_a_file_that_was_changed_anywhere_is_refused_or_read_within(
    good: bytes, edits: list[tuple[str, int, int]]
) -> None:
    data = bytearray(good)
    for what, at, value in edits:
        at = min(at, len(data) - 1)
        if what == "set":
            data[at] = value
        elif what == "cut":
            del data[at : at + value]
        elif what == "put":
            data.insert(at, value)
        else:
            digits = [i for i, one in enumerate(data) if 48 <= one < 58]
            if digits:
                data[digits[at % len(digits)]] = 48 + value
        if not data:
            break
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(data)
        try:
            found = read_params(path)
            arrays = {name: found[name] for name in found}
        except PolycError as error:
            assert error.kind in ("BadParameterFile", "TypeMismatch")
            return
    assert sum(array.nbytes for array in arrays.values()) <= len(data)
    for one in found.file.entries.values():
        assert one.start >= 8 and one.start + one.size <= len(data)
