"""JSON that a user writes: nothing twice, nothing that is not JSON, and a place for each part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.support.json_text import read_json
from polyc.test.support.root import ROOT
from polyc.tools.polyc import main

EXAMPLE = str(ROOT / "examples" / "gemm_bias_relu.mlir")


def refused(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolycError) as caught:
        read_json(path, "BadPlan", "the plan")
    assert caught.value.kind == "BadPlan"
    return caught.value.format().replace(str(path), "p")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1,\n "b": 2, "a": 3}', 'p:2:10: error[BadPlan]: the plan p gives "a" twice, at li'),
        ('[{"x": {"a": 1, "a": 1}}]', 'p:1:17: error[BadPlan]: the plan p gives "a" twice'),
        ('{"a": [{"b": 1}, {"b": 1, "\\u0062": 2}]}', "p:1:27: error[BadPlan]: the plan p gives "),
        ('{"a": {"b": 1}, "c": {"b": 1},\n"a": {}}', 'p:2:1: error[BadPlan]: the plan p gives "a"'),
        ('{"a":\n NaN}', "p:1:2: error[BadPlan]: the plan p is not JSON: NaN is no number of it"),
        ("[1,\n  -Infinity]", "p:2:3: error[BadPlan]: the plan p is not JSON: -Infinity is no num"),
        ("Infinity", "p:1:1: error[BadPlan]: the plan p is not JSON: Infinity is no number"),
        ('{"a": 1}\n x', "p:2:2: error[BadPlan]: the plan p is not JSON: Extra data at line 2"),
        ("{} {}", "p:1:4: error[BadPlan]: the plan p is not JSON: Extra data"),
        ('{"a": 1,}', "p:1:9: error[BadPlan]: the plan p is not JSON: "),
        ("{'a': 1}", "p:1:2: error[BadPlan]: the plan p is not JSON: "),
        ("// none", "p:1:1: error[BadPlan]: the plan p is not JSON: "),
        ("[01]", "p:1:3: error[BadPlan]: the plan p is not JSON: "),
        ("\ufeff{}", "p:1:1: error[BadPlan]: the plan p is not JSON: Unexpected UTF-8 BOM"),
        (b'{"a": "\xff"}', "error[BadPlan]: the plan p cannot be read: "),
        ("[" * 100_000, "p: error[BadPlan]: the plan p cannot be read: it is nested too deep"),
        ("9" * 5000, "p: error[BadPlan]: the plan p cannot be read: Exceeds the limit"),
    ],
)
def test_json_that_is_refused(tmp_path: Path, text: str | bytes, says: str) -> None:
    assert refused(tmp_path / "plan.json", text).startswith(says)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json") / "any.json"


@given(value=VALUES, indent=st.sampled_from([None, 0, 2]), plain=st.booleans())
def test_every_part_has_its_place(
    path: Path, value: object, indent: int | None, plain: bool
) -> None:
    """At the place of a value stands its text, or the key that it belongs to."""
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    path.write_text(text, "utf-8", newline="")
    read = read_json(path, "BadPlan", "the plan")
    assert read.data == value
    lines = text.split("\n")

    def check(part: object, at: tuple[str | int, ...]) -> None:
        place = read.place(*at)
        shown = at[-1] if at and isinstance(at[-1], str) else part
        first = json.dumps(shown, ensure_ascii=plain)
        first = first[0] if isinstance(shown, (dict, list)) else first
        assert lines[place.line - 1][place.column - 1 :].startswith(first)
        for key, inner in _items(part):
            check(inner, (*at, key))

    check(value, ())


def _items(part: object) -> list[tuple[str | int, object]]:
    if isinstance(part, dict):
        return list(cast("dict[str | int, object]", part).items())
    return list(enumerate(cast("list[object]", part))) if isinstance(part, list) else []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"stages": 2,\n "stages": 3}', ':2:2: error[BadPlan]: the plan {p} gives "stages" twice'),
        (
            '{"bind": {"m.o": "block.x", "m.o": "block.y"}}',
            ":1:29: error[BadPlan]: the plan {p} gi",
        ),
        ('[{},\n {"stagez": 2}]', ":2:3: error[BadPlan]: a schedule has no field 'stagez'"),
        ('{"raster": "row",\n "stages": "2"}', ":2:2: error[BadPlan]: field 'stages': expected"),
        ('{"arch": "sm_80"}', ":1:1: error[BadPlan]: the plan is for sm_80, the pass for sm_90a"),
        ('{"a": 1}', ":1:2: error[BadPlan]: a schedule has no field 'a'"),
        ('[{},\n {"variant": "x"}]', ":2:3: error[BadPlan]: there is no variant 'x' to schedule"),
        (
            '[{"stages": 2},\n {"variant": "tma", "stages": 3}, {"variant": "tma"}]',
            ":2:35: error[BadPlan]: the plan has two objects for variant 'tma' of "
            "region @gemm_bias_relu, the other at {p}:2:2; give one",
        ),
        *(
            (
                f'{{"variant": "tma",\n "{field}": {value}}}',
                ":2:2: error[BadPlan]: plan 'tma' says "
                + f"{field} {value}".replace("{", "{{").replace("}", "}}"),
            )
            for field, value in (
                ("bind", '{"zz.o": "block.x"}'),
                ("layout_hints", '{"Q_swizzle": true}'),
                ("cache", '[{"tensr": "A"}]'),
                ("local_edges", '[{"from": "acc", "to": "x", "buffer": "reg", "dept": 2}]'),
                ("predicate_tail", "[]"),
                ("epilogue", '["tanh"]'),
            )
        ),
    ],
)
def test_plans_are_read_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    assert main(["compile", EXAMPLE, "--arch", "sm_90a", "--plan", str(plan)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"{plan}{says.format(p=plan)}"), err
    assert err.count("\n") == 1


def test_a_record_in_text_says_each_entry_once(capsys: pytest.CaptureFixture[str]) -> None:
    from polyc.tools.parsing import parse_text
    from polyc.tools.pipeline import Compilation
    from polyc.tools.printing import module_text
    from polyc.tools.registry import make_context

    text = module_text(Compilation.of_file(EXAMPLE, "sm_90a").run("plan").module)
    twice = text.replace("bind = {", 'bind = {"m.o" = "block.x", ', 1)
    assert twice != text
    with pytest.raises(Exception, match=r"the entry 'm\.o' is given twice"):
        parse_text(make_context(), twice, "x.mlir")
