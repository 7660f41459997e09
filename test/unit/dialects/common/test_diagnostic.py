"""Diagnostics: a sentence at a place."""

from __future__ import annotations

import json

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)

from polyc.dialects.common.diagnostic import Place, PolycError, from_text, one_line, place_of

AT = FileLineColLoc(StringAttr("a.mlir"), IntAttr(3), IntAttr(7))


def test_format_has_place_kind_and_sentence():
    assert PolycError("NonSCoP", "no", AT).format() == "a.mlir:3:7: error[NonSCoP]: no"
    assert PolycError("NonSCoP", "no").format() == "error[NonSCoP]: no"
    assert PolycError("A", "b", Place("f", 2)).format() == "f:2: error[A]: b"
    assert str(PolycError("A", "b", Place("f"))) == "f: error[A]: b"


def test_format_is_one_line_and_notes_follow():
    error = PolycError("A", "first\n   second\t third", AT, notes=["n\n1", "n2"])
    assert error.format().splitlines() == [
        "a.mlir:3:7: error[A]: first second third",
        "  note: n 1",
        "  note: n2",
    ]


def test_dictionary_is_json():
    error = PolycError("A", "b", AT, notes=["c"])
    error.layer = "region-srnf"
    assert json.loads(json.dumps(error.as_dict())) == {
        "level": "error",
        "kind": "A",
        "message": "b",
        "file": "a.mlir",
        "line": 3,
        "column": 7,
        "layer": "region-srnf",
        "numbers": [],
        "shapes": [],
        "notes": ["c"],
    }
    assert PolycError("A", "b").as_dict()["file"] is None


def test_place_is_found_in_every_kind_of_location():
    place = Place("a.mlir", 3, 7)
    unknown = UnknownLoc()
    assert place_of(AT) == place
    assert place_of(NameLoc(StringAttr("x"), AT)) == place
    assert place_of(CallSiteLoc(unknown, AT)) == place
    assert place_of(FusedLoc(ArrayAttr([unknown, AT]), NoneAttr())) == place
    assert place_of(unknown) is None
    assert place_of(None) is None


def test_operation_without_place_takes_that_of_the_op_around_it():
    inner = ModuleOp([])
    outer = ModuleOp([inner])
    assert place_of(inner) is None
    outer.location = AT
    assert place_of(inner) == Place("a.mlir", 3, 7)


def test_first_place_wins():
    error = PolycError("A", "b", AT)
    assert error.located(Place("other")).place == Place("a.mlir", 3, 7)
    assert PolycError("A", "b").located(AT).place == Place("a.mlir", 3, 7)


def test_sentence_may_start_with_its_kind():
    error = from_text("ResourceExceeded: 300 KiB", AT)
    assert (error.kind, error.message) == ("ResourceExceeded", "300 KiB")
    assert from_text("plain: text").kind == "InvalidIR"
    assert from_text("K: 3").kind == "InvalidIR"
    assert from_text("x", kind="ParseError").kind == "ParseError"


def test_one_line():
    assert one_line(" a\n\n b  c ") == "a b c"
