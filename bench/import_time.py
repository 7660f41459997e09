"""How long a whole model takes from ``torch.export`` to cubins: cold, and from the disk cache.

    python -m polyc.bench.import_time                      # no GPU is needed
    python -m polyc.bench.import_time --models bert --arch sm_80 --rounds 3 --json FILE

A run is a process of its own with an empty cache folder, on at most two processors.  The model,
with random weights at full width, is exported before the time begins; the time has the import, all
lowering, and NVRTC for every kernel.  *Import* is ``polyc.from_exported``, *lower* all down to tile
programs, *cubins* the rest; *warm* is the same once more with the folder that the first run
filled.  Times are of the wall, and of the processors in parentheses.  The file has too by how many
MiB the peak of the process grew while the model was imported, beside its own parameters.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

# pyright: basic

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("import", "lower", "cubins")


def bert(torch: Any) -> tuple[Any, Any]:
    """BERT base, twelve layers, and eight sequences of 128 tokens."""
    library: Any = import_module("transformers")
    model = library.BertModel(library.BertConfig(attn_implementation="sdpa"))
    return model.half(), torch.randint(0, 30000, (8, 128))


def resnet50(torch: Any) -> tuple[Any, Any]:
    """ResNet-50, and an image."""
    library: Any = import_module("timm")
    return library.create_model("resnet50").half(), torch.randn(1, 3, 224, 224).half()


def vit(torch: Any) -> tuple[Any, Any]:
    """ViT-B/16, and an image."""
    library: Any = import_module("timm")
    return library.models.VisionTransformer().half(), torch.randn(1, 3, 224, 224).half()


def llama(torch: Any) -> tuple[Any, Any]:
    """A decoder of 1.1 billion parameters, sixteen layers, and 64 tokens."""
    library: Any = import_module("transformers")
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    sizes |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}
    torch.set_default_dtype(torch.float16)
    model = library.LlamaForCausalLM(library.LlamaConfig(**sizes, use_cache=False))
    return model, torch.randint(0, 30000, (1, 64))


MODELS: Mapping[str, Callable[[Any], tuple[Any, Any]]] = {
    "bert": bert,
    "llama": llama,
    "resnet50": resnet50,
    "vit": vit,
}


def one(name: str, arch: str) -> None:
    """What a process of its own does: it prints its times in seconds as JSON."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    with torch.no_grad():
        model, x = MODELS[name](torch)
        exported = torch.export.export(model.eval(), (x,), strict=False)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    before = [_now()]
    polyc: Any = import_module("polyc")
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    imported = polyc.from_exported(exported, name)
    before.append(_now())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    kinds = imported.parameters.values()
    parameters = sum(x.numel() * x.element_size() for x in kinds) >> 20
    program = polyc.compile(imported, arch).program()
    before.append(_now())
    results = program.results
    before.append(_now())
    spans = pairwise(before)
    found: dict[str, Any] = {
        part: [end - start for start, end in zip(*span, strict=True)]
        for part, span in zip(PARTS, spans, strict=True)
    }
    found["import_grows_mib"], found["parameters_mib"] = grown >> 10, parameters
    found["kernels"] = len(program.kernels)
    found["launches"] = sum(len(c.launches or ()) for c in program.described.choices)
    found["spills"] = sum(k.spill_bytes for r in results for k in r.kernels.values())
    print(json.dumps(found))


def _now() -> tuple[float, float]:
    """The time of the wall and of the processors."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def started(name: str, arch: str, folder: str) -> dict[str, Any]:
    """A run in a process of its own, with its cache in ``folder``."""
    left_out = ("POLYC_CACHE", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    done = subprocess.run(
        [sys.executable, "-m", "polyc.bench.import_time", "--one", name, "--arch", arch],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / ".typecheck")} | kept | {"XDG_CACHE_HOME": folder},
    )
    if done.returncode:
        raise SystemExit(f"{name}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(args: Sequence[str]) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="A whole model, from its export to cubins.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["bert", "resnet50"])
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(args)
    if given.one is not None:
        one(given.one, given.arch)
        return 0
    head = "".join(f"{part:>16}" for part in (*PARTS, "together"))
    print(f"{'':<18}{head}   kernels, seconds, medians of {given.rounds}")
    figures: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in given.models:
        found = figures.setdefault(name, {"cold": [], "warm": []})
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as folder:
                for kind in found:
                    found[kind].append(started(name, given.arch, folder))
        for kind, runs in found.items():
            spans = [[run[part] for part in PARTS] for run in runs]
            spans = [[*each, [sum(x) for x in zip(*each, strict=True)]] for each in spans]
            row = [
                [statistics.median(values) for values in zip(*column, strict=True)]
                for column in zip(*spans, strict=True)
            ]
            text = "".join(f"{f'{wall:.2f} ({used:.2f})':>16}" for wall, used in row)
            print(f"{name + ', ' + kind:<18}{text}   {runs[0]['kernels']}", flush=True)
        if given.json is not None:
            kept = {"arch": given.arch, "models": figures}
            Path(given.json).write_text(json.dumps(kept, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
