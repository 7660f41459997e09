"""Whatever the input, a refusal is one sentence at its place, and never a fault of polyc."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.pipeline import ORDER, build
from polyc.rewriting.driver import verify
from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt, sizes
from polyc.tools.commands.inputs import the_graph
from polyc.tools.errors import as_polyc_error
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context
from polyc.tools.streams import decode

EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"
ALIGNED = ROOT / "examples" / "gemm_bias_relu_aligned.mlir"
CTX = make_context()
SENTENCE = re.compile(r"x\.mlir:\d+:\d+: error\[(?!InternalError)[A-Z]\w+\]: \S[^\n]*")


def refusal(data: bytes, lower_for: str = "") -> str | None:
    """How a text is refused, by parser, verifier or compiler; None when it is not."""
    try:
        module = parse_text(CTX, decode(data, "x.mlir"), "x.mlir")
        verify(module)
        text = module_text(module)
        assert module_text(parse_text(CTX, text, "x.mlir")) == text
        if lower_for:
            Compilation(CTX, module, lower_for).run().cuda()
    except Exception as error:
        return as_polyc_error(error, "x.mlir").format()
    return None


def check(data: bytes, lower_for: str = "") -> bool:
    """Whether ``data`` is taken; a refusal is a sentence at a line and column."""
    refused = refusal(data, lower_for)
    assert refused is None or SENTENCE.fullmatch(refused), f"{refused}\nfor {data!r}"
    return refused is None


def test_a_byte_order_mark_is_no_part_of_the_text():
    assert check(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
    assert not check(b"\xef\xbb\xbf\xef\xbb\xbf" + EXAMPLE.read_bytes())


@pytest.mark.turns(2)
@pytest.mark.parametrize("part", range(4))
def test_the_example_cut_off_at_every_byte(part: int):
    text = EXAMPLE.read_bytes()
    start = text.index(b"frontend.graph")
    end = text.rindex(b"}")
    for cut in range(start + 1 + part, end + 1, 4):
        assert not check(text[:cut]), text[:cut][-40:]
    for cut in range(part, start, 4):  # comments alone, or half a slash
        assert not check(text[:cut])


@pytest.mark.parametrize("part", range(2))
def test_the_example_with_a_byte_changed(part: int):
    text = EXAMPLE.read_bytes()
    dice = random.Random(f"bytes {part}")
    for _ in range(400):
        at = dice.randrange(len(text))
        check(text[:at] + bytes([dice.randrange(256)]) + text[at + dice.randrange(2) :])


TOKEN = re.compile(r"\s+|[\w.]+|[%@!#^]\w+|\"[^\"]*\"|->|.", re.DOTALL)
ODD = (
    *("", "0", "-1", "3", "4097", "2147483648", "99999999999999999999", "1.0", "1e400", "nan"),
    *("f16", "bf16", "f64", "i1", "index", "Q", "%nope", "@x", '""', '"', "{", ")", "<", "?"),
    *("floordiv", "mod", "dense<1>", "affine_map<(d0) -> (d0)>", 'loc("a":1:1)', "é", "\0"),
    *("frontend.gemm", "arith.constant", "!tiny.tensor", "unit", "true", "[]", "()"),
)


def mutants(text: str, seed: str, count: int) -> Iterator[bytes]:
    """``text`` with one to three tokens deleted, repeated, replaced or swapped."""
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    dice = random.Random(seed)
    for _ in range(count):
        mutant = list(tokens)
        for _ in range(dice.choice((1, 1, 2, 3))):
            at, other = dice.choice(words), dice.choice(words)
            match dice.randrange(5):
                case 0:
                    mutant[at] = ""
                case 1:
                    mutant[at] *= 2
                case 2:
                    mutant[at] = dice.choice(ODD)
                case 3:
                    mutant[at] = tokens[other]
                case _:
                    mutant[at], mutant[other] = mutant[other], mutant[at]
        yield "".join(mutant).encode()


@cache
def layer(last: str, arch: str, generic: bool = False) -> str:
    """The aligned example after the pass ``last``; it has one kernel, so it is short."""
    ctx = make_context()
    module = parse_text(ctx, ALIGNED.read_text(), "x.mlir")
    for name in ORDER if last else ():
        build(name, arch).apply(ctx, module)
        if name == last:
            break
    return module_text(module, generic=generic)


@pytest.mark.turns(2)
@pytest.mark.parametrize("part", range(4))
def test_mutants_of_the_example(part: int):
    """Two thousand through parser, verifier and printer."""
    for mutant in mutants(EXAMPLE.read_text(), f"example {part}", 500):
        check(mutant)


@pytest.mark.turns(2)
@pytest.mark.parametrize("last", ["", *ORDER[:7]])
def test_mutants_of_every_layer_in_generic_form(last: str):
    """Generic form reaches the verifiers with what no assembly format lets through."""
    for mutant in mutants(layer(last, "sm_90a", generic=True), f"generic {last}", 100):
        check(mutant)


@pytest.mark.turns(2)
@pytest.mark.parametrize("last", ["", "frontend-to-tiny", "index-to-region", "plan-select"])
def test_mutants_that_verify_are_compiled_or_refused(last: str):
    """What parser and verifier take, the passes and the printer take or refuse."""
    taken = 0
    for number, mutant in enumerate(mutants(layer(last, "sm_90a"), f"compiled {last}", 100)):
        if check(mutant) and taken < 5:
            taken += 1
            check(mutant, ("sm_80", "sm_90a")[number % 2] if not last else "sm_90a")
    assert taken, "no mutant verifies, so that nothing was tried"


# What a command is asked for ---------------------------------------------------------------

SIZES = ("--set", "M=3", "--set", "N=4", "--set", "K=5")
TWO_M = """frontend.graph @f(%A: !frontend.tensor<[2 * M, K - 4], f16>, %B: !frontend.tensor<[K - 4, N], f16>)
    -> (C: !frontend.tensor<[2 * M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[2 * M, K - 4], f16>, !frontend.tensor<[K - 4, N], f16>) -> !frontend.tensor<[2 * M, N], f16>
  frontend.output %0 : !frontend.tensor<[2 * M, N], f16>
}
"""  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts that are wrong, and some that are right."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "ok.mlir": EXAMPLE.read_text(),
        "empty.mlir": "",
        "blank.mlir": "\n\n  \n",
        "cut.mlir": EXAMPLE.read_text()[:700],
        "two_m.mlir": TWO_M,
        "tile.mlir": layer("region-to-gpu", "sm_90a"),
        "plan.mlir": layer("plan-select", "sm_90a"),
        "large.mlir": EXAMPLE.read_text().replace("[M, ", "[99999999999, "),
        "deep.mlir": "builtin.module {" * 3000 + "}" * 3000,
        "parens.mlir": EXAMPLE.read_text().replace("[M, K]", f"[{'(' * 4000}M{')' * 4000}, K]"),
        "string.mlir": EXAMPLE.read_text().partition('param"')[0] + "a" * 50_000,
        "word.mlir": "a" * 100_000,
        "wide.json": '{"variant": "tma", "tile": [256, 256, 64], "warp_tile": [128, 256]}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.mlir").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("polyc-opt none.mlir", "none.mlir: error[FileNotFound]: there is no such file"),
        ("polyc-opt folder", "folder: error[NotAFile]: it is a directory; name a file"),
        ("polyc-opt ok.mlir/x", "ok.mlir/x: error[FileNotFound]: a part of the path is not a"),
        ("polyc-opt empty.mlir", "empty.mlir:1:1: error[ParseError]: the text is empty"),
        ("polyc-opt blank.mlir", "blank.mlir:4:1: error[ParseError]: the text is empty"),
        ("polyc-opt binary.mlir", "binary.mlir:2:118: error[NotText]: byte 0x80 at offset 128"),
        ("polyc-opt cut.mlir", "is it cut off?"),
        ("polyc-opt deep.mlir", "error[NestedTooDeep]: "),
        ("polyc-opt parens.mlir", "error[NestedTooDeep]: "),
        ("polyc-opt string.mlir", "closing string literal"),
        ("polyc-opt word.mlir", "error[ParseError]: "),
        ("polyc-opt ok.mlir -o folder", "folder: error[NotAFile]: "),
        ("polyc-opt ok.mlir -t cuda", "ok.mlir:1:1: error[NotLowered]: "),
        ("polyc-opt ok.mlir -p nope", "error[UnknownPass]: there is no pass nope"),
        ("polyc compile ok.mlir", "error[Usage]: the following arguments are required: --arch"),
        ("polyc compile none.mlir --arch sm_80", "none.mlir: error[FileNotFound]: "),
        ("polyc compile ok.mlir --arch sm_75", "no architecture 'sm_75'; use sm_80 or sm_90a"),
        ("polyc compile ok.mlir --arch sm_80 --emit elf", "error[Usage]: "),
        ("polyc compile ok.mlir --arch sm_80 --dump nope", "error[Usage]: --dump has no 'nope'"),
        (
            "polyc compile ok.mlir --arch sm_80 -o k.cu --dump cu --dump-dir ok.mlir",
            "ok.mlir: error[NotAFolder]: it is a file; name a folder",
        ),
        (
            "polyc compile tile.mlir --arch sm_80",
            "tile.mlir:2:3: error[ArchMismatch]: gpu.module is for sm_90a, and --arch is sm_80",
        ),
        ("polyc compile plan.mlir --arch sm_80", "error[ArchMismatch]: plan.schedule is for"),
        (
            "polyc compile large.mlir --arch sm_80",
            "large.mlir:4:26: error[ParseError]: size 99999999999 of axis 0 in [99999999999, K] is "
            "too large; kernels index with 32 bits, sizes up to 2147479552",
        ),
        (
            "polyc compile ok.mlir --arch sm_90a --plan wide.json",
            "wide.json:1:1: error[ResourceExceeded]: plan 'tma' of region @gemm_bias_relu: ",
        ),
        ("polyc run ok.mlir", "ok.mlir:3:1: error[MissingSize]: "),
        ("polyc run ok.mlir --set M=-1", "error[BadSize]: --set M=-1: a size is 0 or more"),
        ("polyc run ok.mlir --seed x", "error[Usage]: argument --seed: invalid int value: 'x'"),
        (
            "polyc run ok.mlir --set M=2147483647 --set N=1 --set K=1 --device cpu",
            "error[BadSize]: A has a size of M, which is 2147483647 at M = 2147483647; sizes are",
        ),
        (
            "polyc run two_m.mlir --set M=2000000000 --set N=1 --set K=8 --device cpu",
            "A has a size of 2 * M, which is 4000000000 at M = 2000000000",
        ),
        (
            "polyc run two_m.mlir --set M=1 --set N=1 --set K=1 --device cpu",
            "A has a size of K - 4, which is -3 at K = 1",
        ),
        (
            "polyc run ok.mlir --set M=2000000000 --set N=2000000000 --set K=1 --device cpu",
            "ok.mlir:3:1: error[OutOfMemory]: @gemm_bias_relu at M=2000000000, K=1, N=2000000000 ",
        ),
        ("polyc nope", "error[Usage]: argument COMMAND: invalid choice: 'nope'"),
        ("polyc", "error[Usage]: "),
    ],
)
def test_commands_that_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, says: str
):
    name, *args = command.split()
    assert (polyc_opt if name == "polyc-opt" else polyc).main(args) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "InternalError" not in error, error
    assert says in error


def test_a_file_that_may_not_be_read_or_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Whoever runs the tests may be allowed everything, so the system's answer is made up."""

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "k.cu")

    monkeypatch.setattr(Path, "write_bytes", denied)
    assert polyc.main(["compile", "ok.mlir", "--arch", "sm_80", "-o", "k.cu"]) == 1
    assert capsys.readouterr().err == "k.cu: error[NoPermission]: permission denied\n"


def test_memory_that_a_run_takes_is_compared_with_the_hosts(monkeypatch: pytest.MonkeyPatch):
    job = Compilation.of_file(EXAMPLE, "sm_80")
    graph = the_graph(job.module, "x", None)
    small = {"M": 1000, "K": 1000, "N": 1000}
    sizes.check_tensors(graph, small)
    monkeypatch.setattr(sizes, "free_memory", lambda: 50_000_000)
    with pytest.raises(PolycError, match=r"takes about 0\.1 GB to play back, and 0\.1 GB are free"):
        sizes.check_tensors(graph, small)
    monkeypatch.setattr(sizes, "free_memory", lambda: None)
    sizes.check_tensors(graph, small)
