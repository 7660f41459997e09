"""Many architectures with random weights that no issue names: what polyc makes of each.

A ``Case`` is a model of timm, transformers, torchvision or PyTorch itself, made small: runs of
layers of one kind are cut to two, and widths of transformers' are a few dozen.  ``outcome`` brings
one in and says how far it gets; states are in ``STATES``, the best first.
"""

# pyright: basic

from __future__ import annotations

import contextlib
import copy
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import ITIMER_PROF
from typing import Any

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.registry import library
from polyc.test.support.kernelbench import _family, planned, regions, untouched
from polyc.test.support.limits import TooLong, limited
from polyc.test.support.zoo_times import modelled

STATES = ("right", "planned", "wrong", "unplanned", "missing", "broken", "unexported", "unmade")
"""``right`` at playback and planned; ``wrong`` at playback; ``unplanned`` no way to kernels;
``missing`` it cannot be said; ``broken`` an error that is no diagnostic; ``unexported`` PyTorch
does not export it; ``unmade`` the library does not make or run it so small."""

TOLERANCE = 1e-5
"""Of f32, over the largest number of a result, of what the model itself says again in f64."""


@dataclass(frozen=True)
class Case:
    """A model's name, ``timm/resnet18``, and who makes it: a module, its arguments by place and by
    name."""

    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...], Mapping[str, Any]]]
    wide: Callable[[], tuple[Any, tuple[Any, ...], Mapping[str, Any]]] | None = None
    """The same as wide as it is used, of one layer a run of equal ones, with weights that nobody
    filled: what plans are chosen for."""
    loose: float = 0.0
    """The error that is permitted where a model computes in a narrower type inside, and so has no
    f64 to compare with."""


@dataclass
class Outcome:
    """The state of a case, why it is none better, its error over the permitted one, the ops that
    are missing, seconds of each step, and what the model of time says of it."""

    state: str
    why: str = ""
    error: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    regions: list[str] = field(default_factory=list[str])
    modelled: dict[str, Any] = field(default_factory=dict[str, Any])


# Made smaller -------------------------------------------------------------------------------


def _signature(module: Any) -> Any:
    return type(module), tuple((name, tuple(one.shape)) for name, one in module.named_parameters())


def shorten(model: Any, keep: int = 2) -> None:
    """Cut runs of layers that are built alike to ``keep`` of them."""
    nn = library("torch.nn", "torch")
    for module in list(model.modules()):
        if not isinstance(module, nn.Sequential | nn.ModuleList) or len(module) <= keep:
            continue
        kept: list[Any] = []
        run = 0
        for child in module:
            if isinstance(child, nn.ModuleList | nn.Sequential) and not list(child.parameters()):
                return
            same = kept and _signature(child) == _signature(kept[-1]) and _signature(child)[1]
            run = run + 1 if same else 1
            if run <= keep:
                kept.append(child)
        if len(kept) < len(module):
            for name in list(module._modules):
                del module._modules[name]
            for i, child in enumerate(kept):
                module._modules[str(i)] = child


SMALL: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            *("vocab_size", "word_embed_size"),
            *("text_vocab_size", "char_vocab_size", "entity_vocab_size"),
        ),
        99,
    ),
    **dict.fromkeys(
        (
            *("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim", "embedding_size"),
            *("attention_hidden_size", "encoder_hidden_size", "decoder_hidden_size"),
            *("projection_dim", "hidden_dim", "embedding_dim", "lm_head_hidden_size"),
        ),
        32,
    ),
    **dict.fromkeys(
        (
            *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
            *("decoder_layers", "num_decoder_layers", "num_encoder_layers", "depth"),
            *("num_attention_layers", "num_blocks"),
        ),
        2,
    ),
    **dict.fromkeys(
        (
            *("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
            *("decoder_attention_heads",),
        ),
        4,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "kv_channels", "rotary_dim", "attention_head_dim"), 8),
    **dict.fromkeys(
        (
            *("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"),
            *("ffn_dim", "moe_intermediate_size", "shared_expert_intermediate_size"),
        ),
        64,
    ),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    "image_size": 32,
    "patch_size": 8,
    "num_channels": 3,
}
"""Numbers of a configuration of transformers, where it has one of the name."""

BATCH = 4
"""Of what plans are chosen for."""

LENGTH = 512
"""Of texts that plans are chosen for, where a model takes as long ones."""

_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")


WIDE: Mapping[int, int] = {
    99: 32000,
    32: 1024,
    2: 2,
    4: 16,
    8: 64,
    64: 4096,
}
"""What the numbers of ``SMALL`` are where a model is short and as wide as real ones are."""


def shrink(config: Any, wide: bool = False) -> None:
    """Give a configuration, and those in it, small numbers, or few layers of real ones."""
    for name, small in SMALL.items():
        if wide:
            if name in ("image_size", "patch_size", "num_channels"):
                continue
            small = 8 if "expert" in name else WIDE[small]
            small = 2048 if name in _LENGTHS else small
        own = config.__dict__.get(name)
        if isinstance(own, int) and not isinstance(own, bool) and own > small:
            with contextlib.suppress(Exception):
                setattr(config, name, small)
    for name in (*("pad_token_id", "bos_token_id", "eos_token_id"), "decoder_start_token_id"):
        own = config.__dict__.get(name)
        if isinstance(own, int) and own >= 99:
            setattr(config, name, 1)
        if isinstance(own, list):
            setattr(config, name, 1)
    for name in ("use_cache", "return_dict_in_generate"):
        if config.__dict__.get(name):
            setattr(config, name, False)
    kind = library("transformers", "transformers").PreTrainedConfig
    for one in config.__dict__.values():
        if isinstance(one, kind):
            shrink(one, wide)


# Who makes them -----------------------------------------------------------------------------


def _timm(name: str, size: int | None = None, **how: Any) -> Case:
    def make() -> Any:
        torch, timm = library("torch", "torch"), library("timm", "timm")
        model: Any = None
        given = size
        for more in ({"img_size": size or 64}, {}):
            with contextlib.suppress(Exception):
                model = timm.create_model(name, num_classes=10, **more, **how)
                if not more:
                    wanted = model.pretrained_cfg.get("input_size", (3, 224, 224))[-1]
                    fixed = model.pretrained_cfg.get("fixed_input_size", False)
                    given = wanted if fixed else (size or 64)
                else:
                    given = size or 64
                x = torch.randn(2, 3, given, given)
                with torch.no_grad():
                    model.eval()(x)
                break
            model = None
        if model is None:
            model = timm.create_model(name, num_classes=10, **how).eval()
            given = model.pretrained_cfg.get("input_size", (3, 224, 224))[-1]
        return model, (torch.randn(2, 3, given, given),), {}

    def wide() -> Any:
        torch, timm = library("torch", "torch"), library("timm", "timm")
        with untouched(torch):
            model = timm.create_model(name, **how).eval()
        side = model.pretrained_cfg.get("input_size", (3, 224, 224))[-1]
        short = _shortened(model, (torch.randn(1, 3, side, side),), {}, 1)
        return short, (torch.randn(BATCH, 3, side, side),), {}

    return Case(f"timm/{name}", make, wide)


def _language(kind: str) -> Case:
    def make() -> Any:
        torch = library("torch", "torch")
        transformers = library("transformers", "transformers")
        config = transformers.AutoConfig.for_model(kind)
        shrink(config)
        model = transformers.AutoModel.from_config(config)
        return model, (), _inputs(torch, model, config)

    def wide() -> Any:
        torch = library("torch", "torch")
        transformers = library("transformers", "transformers")
        config = transformers.AutoConfig.for_model(kind)
        shrink(config, wide=True)
        with untouched(torch):
            model = transformers.AutoModel.from_config(config).eval()
        text = getattr(config, "text_config", config)
        most = min(getattr(text, name, None) or LENGTH for name in _LENGTHS)
        length = min(LENGTH, most)
        return model, (), _inputs(torch, model, config, BATCH, length)

    return Case(f"transformers/{kind}", make, wide)


def _inputs(
    torch: Any, model: Any, config: Any, batch: int = 2, length: int = 16
) -> dict[str, Any]:
    """What a model of transformers is called on, by the names of its arguments."""
    import inspect

    names = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {}
    vision = getattr(config, "vision_config", config)
    if "input_ids" in names:
        given["input_ids"] = torch.randint(3, 90, (batch, length))
    if "attention_mask" in names and "input_ids" in names:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[1, length * 2 // 3 :] = 0
        given["attention_mask"] = mask
    if "decoder_input_ids" in names:
        given["decoder_input_ids"] = torch.randint(3, 90, (batch, length // 2))
    if "pixel_values" in names:
        side = getattr(vision, "image_size", None) or 64
        side = side if isinstance(side, int) else side[0]
        channels = getattr(vision, "num_channels", 3)
        given["pixel_values"] = torch.randn(batch, channels, side, side)
    if "pixel_values_videos" in names and "input_ids" not in names:
        frames = getattr(config, "num_frames", 4)
        given["pixel_values_videos"] = torch.randn(batch // 2, frames, 3, 32, 32)
    if "input_values" in names:
        given["input_values"] = torch.randn(batch, 2000)
    if "input_features" in names:
        bins = getattr(config, "num_mel_bins", 80)
        given["input_features"] = torch.randn(batch, bins, 64)
    return given


NAMES = Path(__file__).with_name("zoo_names.txt")
"""The architectures, a line each: of timm some of each family, of transformers configurations."""


def cases() -> list[Case]:
    """All cases, in the order of their names' file."""
    made: dict[str, Callable[[str], Case]] = {"timm": _timm, "transformers": _language}
    parts = [line.split("/") for line in NAMES.read_text("utf-8").split()]
    return [made[library_](name) for library_, name in parts]


# What comes of one --------------------------------------------------------------------------


def leaves(found: Any) -> list[Any]:
    """The tensors in a result."""
    torch = library("torch", "torch")
    every = torch.utils._pytree.tree_leaves(found)
    return [one for one in every if isinstance(one, torch.Tensor)]


def error_of(found: Any, right: Any) -> float:
    """The largest difference over the largest number; infinite where NaN or types differ."""
    torch = library("torch", "torch")
    if tuple(found.shape) != tuple(right.shape) or found.dtype != right.dtype:
        return float("inf")
    if not right.numel():
        return 0.0
    if not right.is_floating_point():
        return float((found != right).double().mean())
    found, right = found.double(), right.double()
    odd = ~torch.isfinite(right)
    if bool((odd != ~torch.isfinite(found)).any()):
        return float("inf")
    away = (found - right).abs().masked_fill(odd, 0)
    largest = right.abs().masked_fill(odd, 0).max()
    return float(away.max() / largest.clamp_min(1e-30))


def _run(torch: Any, model: Any, args: Any, named: Any) -> Any:
    with torch.no_grad():
        return model(*copy.deepcopy(args), **copy.deepcopy(named))


def made(case: Case, whole: bool = False) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    """A case's model in eval mode, short where it still runs so."""
    torch = library("torch", "torch")
    torch.manual_seed(0)
    model, args, named = case.make()
    model.eval()
    return model if whole else _shortened(model, args, named), args, named


def _shortened(model: Any, args: Any, named: Any, keep: int = 2) -> Any:
    """A model of fewer layers, where it still runs so."""
    short = copy.deepcopy(model)
    try:
        shorten(short, keep)
        _run(library("torch", "torch"), short, args, named)
    except Exception:
        return model
    return short


def exported(model: Any, args: Any, named: Any, shapes: Any = None) -> Any:
    """A model as a program of ``torch.export``."""
    torch = library("torch", "torch")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(model, args, dict(named), dynamic_shapes=shapes, strict=False)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"


def outcome(case: Case, seconds: int = 90, play: bool = True, plan: bool = True) -> Outcome:
    """How far a case gets, in f32."""
    torch = library("torch", "torch")
    found = Outcome("unmade")
    at = time.process_time()

    def step(name: str) -> None:
        nonlocal at
        found.seconds[name] = round(time.process_time() - at, 2)
        at = time.process_time()

    try:
        with warnings.catch_warnings(), limited(seconds, ITIMER_PROF):
            warnings.simplefilter("ignore")
            model, args, named = made(case)
            _run(torch, model, args, named)
            step("make")
            found.state = "unexported"
            program = exported(model, args, named)
            # What a model does otherwise where it is not traced is not the importer's to know.
            with torch.no_grad():
                wanted = leaves(program.module()(*copy.deepcopy(args), **copy.deepcopy(named)))
            step("export")
            found.state = "missing"
            model_ = polyc.from_exported(program)
            step("import")
            given = leaves((args, dict(named)))
            if play:
                found.state = "wrong"
                got = polyc.compile(model_, device="cpu")(*given)
                listed = list(got) if isinstance(got, tuple) else [got]
                step("play")
                # What is the same tensor twice, or an input, is there all the same.
                if len(listed) != len(wanted):
                    found.why = f"{len(listed)} results for {len(wanted)}"
                    return found
                found.error = max(map(error_of, listed, wanted))
                if not found.error <= TOLERANCE:
                    try:
                        precise = leaves(_run(torch, *_double(torch, model, args, named)))
                    except RuntimeError:  # it names a type of its own
                        found.why = f"off by {found.error:.1e}"
                        if not found.error <= case.loose:
                            return found
                        precise = wanted
                    own = max(
                        error_of(a.double() if a.is_floating_point() else a, b)
                        for a, b in zip(wanted, precise, strict=True)
                    )
                    ours = max(
                        error_of(a.double() if a.is_floating_point() else a, b)
                        for a, b in zip(listed, precise, strict=True)
                    )
                    found.why = f"off by {found.error:.1e}; of f64 {ours:.1e}, PyTorch {own:.1e}"
                    if not ours <= max(TOLERANCE, 4 * own, case.loose):
                        return found
            found.state = "unplanned"
            if plan:
                wide, why = _halved(case)
                job = planned(model_ if wide is None else wide)
                found.regions = [_family(*one) for one in regions(job)]
                if wide is None:
                    found.why = f"planned as small as it was played back: {why}"
                else:
                    found.why = why or found.why
                    found.modelled = modelled(regions(job))
                step("plan")
            found.state = "right"
    except TooLong:
        found.why = f"more than {seconds} s"
    except PolycError as error:
        notes = "; ".join(str(one) for one in getattr(error, "notes", ()))
        found.why = f"{error.kind}: {error.message[:300]} | {notes[:1500]}"
    except Exception as error:
        found.why = _first_line(error)
        own = [f for f in traceback.extract_tb(error.__traceback__) if "/w/" in f.filename]
        if own and found.state not in ("unmade", "unexported"):
            found.state = "broken"
            found.why += f" at {own[-1].filename}:{own[-1].lineno}"
    return found


def _halved(case: Case) -> tuple[Any, str]:
    """The import of a case as wide as it is used, in f16, or why there is none such.

    A model that computes in f32 between layers of f16, which PyTorch refuses to multiply, has no
    f16: it is imported in f32, and that is said.
    """
    torch = library("torch", "torch")
    if case.wide is None:
        return None, "no wide one is known"

    def half(one: Any) -> Any:
        real_ = isinstance(one, torch.Tensor) and one.is_floating_point()
        return one.half() if real_ else one

    tree = torch.utils._pytree.tree_map
    try:
        model, args, named = case.wide()
        program = exported(model.half(), tree(half, args), tree(half, named))
        try:
            return polyc.from_exported(program), ""
        except PolycError as error:
            if "TypeMismatch" not in f"{error} {getattr(error, 'notes', ())}":
                raise
            said = "; ".join(map(str, getattr(error, "notes", ())))
            why = f"planned in f32, as its f16 is mixed with it: {said}"
            return polyc.from_exported(exported(*case.wide())), why
    except Exception as error:  # A library that does not make or export it so.
        return None, _first_line(error)


def _double(torch: Any, model: Any, args: Any, named: Any) -> Any:
    def wide(one: Any) -> Any:
        return one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one

    tree = torch.utils._pytree.tree_map
    return copy.deepcopy(model).double(), tree(wide, args), tree(wide, dict(named))


def compiled(case: Case, seconds: int = 90, dtype: str = "float16") -> Outcome:
    """How ``torch.compile(…, backend="polyc")`` does on a GPU: ``right`` where the error to f32 is
    no more than twice PyTorch's own in the type; ``why`` has what stayed with PyTorch."""
    torch = library("torch", "torch")
    found = Outcome("unmade")
    reports: list[Any] = []
    at = time.perf_counter()
    try:
        with warnings.catch_warnings(), limited(seconds, ITIMER_PROF), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            model, args, named = made(case)
            kind = getattr(torch, dtype)

            def moved(one: Any, to: Any) -> Any:
                if not isinstance(one, torch.Tensor):
                    return one
                return one.cuda().to(to) if one.is_floating_point() else one.cuda()

            tree = torch.utils._pytree.tree_map
            args, named = (
                tree(lambda one: moved(moved(one, kind), torch.float32), given)
                for given in (args, dict(named))
            )
            model = model.to(kind).cuda()
            exact = copy.deepcopy(model).float()
            right = leaves(_run(torch, exact, args, named))
            args, named = (tree(lambda one: moved(one, kind), given) for given in (args, named))
            eager = leaves(_run(torch, model, args, named))
            found.seconds["make"] = round(time.perf_counter() - at, 1)
            found.state = "broken"
            fast = torch.compile(
                model, backend=polyc.torch_backend, options={"report": reports.append}
            )
            got = leaves(_run(torch, fast, args, named))
            again = leaves(_run(torch, fast, args, named))
            found.seconds["all"] = round(time.perf_counter() - at, 1)
            found.state = "wrong"
            ours = [error_of(a.float(), b.float()) for a, b in zip(got, right, strict=True)]
            own = [error_of(a.float(), b.float()) for a, b in zip(eager, right, strict=True)]
            same = all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
            found.error = max(ours, default=0.0)
            worse = [
                i for i, (a, b) in enumerate(zip(ours, own, strict=True)) if not a <= 2 * b + 1e-3
            ]
            found.why = f"{max(ours):.1e} for {max(own):.1e}" + (
                "" if same else ", not the same twice"
            )
            if not worse:
                found.state = "right"
    except TooLong:
        found.why = f"more than {seconds} s"
    except Exception as error:
        found.why = _first_line(error)
    told = list(dict.fromkeys(map(id, reports)))
    for one in told:
        text = str(next(r for r in reports if id(r) == one))
        found.regions.append(text)
    programs = sum(len(r.programs) for r in {id(r): r for r in reports}.values())
    left = [fault.op for r in {id(r): r for r in reports}.values() for fault in r.left]
    back = [w for r in {id(r): r for r in reports}.values() for w in r.given_back.values()]
    found.why += f" | {len(told)} graphs, {programs} programs"
    if left:
        found.why += f"; with PyTorch: {', '.join(dict.fromkeys(left))}"
    if back:
        found.why += f"; given back: {'; '.join(dict.fromkeys(back))[:400]}"
    return found
