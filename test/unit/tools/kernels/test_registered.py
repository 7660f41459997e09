"""Tile programs that say what they replace: which a file has, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.by_hand import FILE, RIGHT, add_relu, written
from polyc.test.support.root import ROOT
from polyc.tools.kernels.registered import registered


def test_a_program_and_its_region(tmp_path: Path) -> None:
    (own,) = registered(str(written(tmp_path)))
    assert own.name == "by_hand"
    assert own.tensors == (0, 1, 2)
    assert [a.label for a in own.pattern.iters] == ["m", "n"]
    assert [k.sym_name.data for k in own.module.kernels()] == ["by_hand"]


def test_programs_in_a_list_in_order() -> None:
    found = registered(str(ROOT / "examples" / "kernels" / "gemm.py"))
    assert [own.name for own in found] == ["by_hand_128x160", "by_hand_128x176"]


def test_programs_in_a_dictionary_are_found_once(tmp_path: Path) -> None:
    file = tmp_path / "several_by_hand.py"
    text = written(tmp_path).read_text("utf-8")
    file.write_text(f"{text}\nALL = {{1: by_hand, 2: by_hand, 3: None}}\n", "utf-8")
    assert [own.name for own in registered(str(file))] == ["by_hand"]


def test_a_pattern_in_a_file_beside(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "pattern.mlir").write_text(add_relu(), "utf-8")
    (own,) = registered(str(written(tmp_path, pattern="texts/pattern.mlir")))
    assert own.pattern.sym_name.data == "f"


def test_a_pattern_may_be_a_path_object(tmp_path: Path) -> None:
    (tmp_path / "pattern.mlir").write_text(add_relu(), "utf-8")
    text = written(tmp_path).read_text("utf-8")
    file = tmp_path / "by_path_object.py"
    start, end = text.index('PATTERN = """'), text.index('"""\n\n\n@T')
    path = f"from pathlib import Path\n\nPATTERN = Path({str(tmp_path / 'pattern.mlir')!r})\n"
    file.write_text(text[:start] + path + text[end + 4 :], "utf-8")
    (own,) = registered(str(file))
    assert own.pattern.sym_name.data == "f"


SEVERAL = """
frontend.graph @both(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.softmax %X axes [0] : !frontend.tensor<[M, N], f16>
  %1 = frontend.softmax %0 axes [1] : !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}
"""

BAD = {
    "no graph": ("{ nonsense", "its pattern is no graph, ParseError: "),
    "not valid": (
        add_relu().replace("relu", "nothing"),
        "its pattern is no graph, ParseError: ",
    ),
    "no file": ("nowhere.mlir", "is not read: No such file or directory"),
    "two graphs": (
        add_relu() + add_relu().replace("@f", "@g"),
        "its pattern is frontend.graph, frontend.graph; give one frontend.graph",
    ),
    "another type": (
        add_relu(kind="f16"),
        "X of its pattern is [M, N] of f16, and the program's tensor in its place is [M, N] of f32",
    ),
    "another shape": (
        add_relu("[M, N]", "[M, 1]"),
        "b of its pattern is [M, 1] of f32, and the program's tensor in its place is [N] of f32",
    ),
    "one input less": (
        "frontend.graph @f(%X: !frontend.tensor<[M, N], f32>)"
        " -> (Y: !frontend.tensor<[M, N], f32>) {\\n"
        "  %0 = frontend.elementwise relu %X : !frontend.tensor<[M, N], f32>\\n"
        "  frontend.output %0 : !frontend.tensor<[M, N], f32>\\n}\\n",
        "its pattern has 1 inputs, and the program 2",
    ),
    "an input that nothing uses": (
        add_relu()
        .replace("add %X, %b", "add %X, %X")
        .replace("f32>, !frontend.tensor<[N], f32>) ->", "f32>, !frontend.tensor<[M, N], f32>) ->"),
        "its pattern does not use the input b; leave it out",
    ),
}


@pytest.mark.parametrize(("pattern", "text"), BAD.values(), ids=BAD)
def test_what_is_no_pattern_is_refused(pattern: str, text: str, tmp_path: Path) -> None:
    file = written(tmp_path, pattern=pattern)
    with pytest.raises(PolycError) as caught:
        registered(str(file))
    assert caught.value.kind == "BadReplacement"
    assert "program by_hand: " in caught.value.message
    assert text in caught.value.message
    assert caught.value.place is not None and caught.value.place.file == str(file)


def test_a_pattern_of_several_regions_is_refused(tmp_path: Path) -> None:
    text = FILE.format(
        pattern=SEVERAL.replace("f16", "f32"), value=RIGHT, when="", arch="sm_90a", assume=""
    )
    text = text.replace("b: T.Tensor[N, T.f32], ", "").replace(" + b[j + j0]", "")
    file = tmp_path / "several_regions.py"
    file.write_text(text, "utf-8")
    with pytest.raises(PolycError, match="its pattern becomes 2 regions") as caught:
        registered(str(file))
    assert caught.value.kind == "BadReplacement"


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    text = written(tmp_path).read_text("utf-8")
    file = tmp_path / "no_text.py"
    file.write_text(text.replace("replaces=PATTERN", "replaces=7"), "utf-8")
    with pytest.raises(PolycError, match=r"the path of a frontend\.graph, not 7"):
        registered(str(file))


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    text = written(tmp_path).read_text("utf-8")
    file = tmp_path / "twins.py"
    file.write_text(text + text[text.index("@T.program") :], "utf-8")
    registered(str(file))  # the second one takes the first one's place
    second = text[text.index("@T.program") :].replace("def by_hand", "def other")
    file = tmp_path / "twins_by_hand.py"
    file.write_text(text + second.replace("replaces=", 'name="by_hand", replaces='), "utf-8")
    with pytest.raises(PolycError, match="another program has its name") as caught:
        registered(str(file))
    assert caught.value.kind == "BadReplacement"


def test_a_file_without_any_is_refused() -> None:
    file = str(ROOT / "examples" / "tile" / "gemm_pipelined.py")
    with pytest.raises(PolycError, match="has no program that says what it replaces") as caught:
        registered(file)
    assert caught.value.kind == "BadReplacement"
    with pytest.raises(PolycError, match="is no Python file") as caught:
        registered("kernels.mlir")
    assert caught.value.kind == "BadReplacement"


def test_what_python_raises_is_told_at_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, value="x[i, j] + nothing")
    with pytest.raises(PolycError) as caught:
        registered(str(file))
    assert caught.value.kind == "PythonFailed"
    assert caught.value.place is not None and caught.value.place.file == str(file)
    with pytest.raises(FileNotFoundError):
        registered(str(tmp_path / "nowhere.py"))
