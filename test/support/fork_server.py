"""A process that has imported polyc and runs its tools in forks, for tests of many commands.

lit runs some 900 commands, whose time would mostly go to importing xDSL, isl and polyc.  Each is
still a process of its own: a fork of this one, with the streams, directory, environment and
arguments that ``forked.py`` sends.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

import polyc
from polyc.test.support.forked import LENGTH

TOOLS = ("polyc.tools.polyc_opt", "polyc.tools.polyc", "filecheck.main")
"""What may be asked for: modules with a ``main()`` that reads ``sys.argv``."""


def start(root: str) -> str:
    """Start a server that imports polyc from ``root``; it ends with this process.

    Returns the path of its socket, on which it listens already.
    """
    path = os.path.join(tempfile.mkdtemp(prefix="polyc-"), "socket")
    # Nobody writes to the pipe: the server sees its end, which is that of this process.
    process = subprocess.Popen(
        [sys.executable, "-m", "polyc.test.support.fork_server", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    if process.stdout.read(1) != b"+":
        raise RuntimeError(f"the server of forks ended with {process.wait()} before it listened")
    return path


def serve(path: str) -> None:
    """Answer requests at ``path`` until the standard input ends."""
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are waited for by whom they answer
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        os.write(1, b"+")
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                os._exit(_answer(connection))
            connection.close()
    shutil.rmtree(os.path.dirname(path))


def _import_everything() -> None:
    """Import all of polyc but what measures and tests it, and keep it out of the collector."""
    for module in pkgutil.walk_packages(polyc.__path__, "polyc."):
        if not module.name.startswith(("polyc.bench", "polyc.examples", "polyc.test")):
            importlib.import_module(module.name)
    for name in TOOLS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _answer(connection: socket.socket) -> int:
    """Read a request, run it in this process and send the exit code, which is returned."""
    length, descriptors, *_ = socket.recv_fds(connection, LENGTH, 3)
    request = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    directory, number, *words = request.decode("utf-8", "surrogateescape").split("\0")
    variables, (module, *arguments) = words[: int(number)], words[int(number) :]
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    # Others than the server's own, which know what its files can do.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(directory)
    os.environ.clear()
    for name, _, value in (variable.partition("=") for variable in variables):
        os.environ[name] = value
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = run(module, arguments)
    connection.sendall(bytes([code]))
    return code


def run(module: str, arguments: list[str]) -> int:
    """Call ``main()`` of a module of ``TOOLS`` as its console script would: the exit code."""
    sys.argv = [module, *arguments]
    code: object = 1
    try:
        if module not in TOOLS:
            raise ValueError(f"{module} is not one of {', '.join(TOOLS)}")
        code = importlib.import_module(module).main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stderr.flush()
    return code & 0xFF if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(sys.argv[1])
