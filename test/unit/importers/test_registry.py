"""Converters are found by name, and all that has none is one diagnostic."""

from __future__ import annotations

import pytest

import polyc
from polyc.dialects.common.diagnostic import Place, PolycError
from polyc.importers.registry import (
    Faults,
    bad_model,
    converter,
    converter_of,
    converters,
    library,
)


def test_the_last_one_that_is_registered_is_asked():
    @polyc.converter("toy", "one", "two")
    def first(x: object) -> object:
        return x

    assert converter_of("toy", "one") is converter_of("toy", "two") is first
    assert converter_of("toy", "three") is None and converter_of("other", "one") is None
    assert converter_of("toy", "three", "two") is first

    @converter("toy", "two")
    def second(x: object) -> object:
        return x

    assert converters("toy") == {"one": first, "two": second}


def test_a_name_is_needed():
    with pytest.raises(PolycError, match="names of ops") as caught:
        converter("toy")
    assert caught.value.kind == "Usage"


def test_a_library_that_is_not_there():
    assert library("json", "toy").dumps([]) == "[]"
    with pytest.raises(PolycError, match=r"install polyc\[toy\]") as caught:
        library("polyc_has_no_such_module", "toy")
    assert caught.value.kind == "NoImporter"


def test_a_malformed_model():
    with pytest.raises(PolycError, match=r"net\.onnx ends in the middle of a field") as caught:
        bad_model("net.onnx", "ends in the middle of a field")
    assert caught.value.kind == "BadModel"


def test_all_faults_are_one_diagnostic():
    faults = Faults("net.onnx")
    faults.check()
    assert not faults
    faults.missing("Foo", "/a/Foo")
    faults.refused("Bar", "/b/Bar", PolycError("BadArgument", "axis 7 is none of [M, 4]"))
    for i in range(9):
        faults.missing("Foo", f"/c/{i}", Place("net.py", 3 + i))
    with pytest.raises(PolycError) as caught:
        faults.check()
    error = caught.value
    assert error.kind == "UnsupportedModel" and str(error.place) == "net.py:3"
    assert "net.onnx has 2 ops that cannot be said: Foo, Bar" in error.message
    assert error.notes == (
        "Foo at /a/Foo, "
        + ", ".join(f"/c/{i} (net.py:{3 + i})" for i in range(7))
        + " and 2 more: no converter",
        "Bar at /b/Bar: BadArgument: axis 7 is none of [M, 4]",
    )
