"""How many of ONNX's backend node cases are right, and what the others need.

Each case of the onnx that is installed is imported and played back at the frontend on its own
inputs, and its outputs are compared with those that are expected, by the tolerances of onnx's own
runner.  ``test/support/onnx_cases.py`` says what the states mean, and a test holds the board.

    python bench/onnx_cases.py [--output bench/results/onnx_cases.json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from polyc.bench.race import commit, now
from polyc.importers.registry import library
from polyc.test.support.onnx_cases import board


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench/results/onnx_cases.json"))
    args = parser.parse_args()
    version = library("onnx", "onnx").__version__
    found: dict[str, Any] = {"when": now(), "commit": commit(), "onnx": version, **board()}
    args.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for row in found["rows"]:
        print(f"{row['count']:5} {row['state']}")
    for what, names in found["not right"]["missing"].items():
        print(f"{len(names):5} missing: {what}")


if __name__ == "__main__":
    main()
