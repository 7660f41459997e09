"""Runs a tool in a fork of ``fork_server.py``, which has imported it already.

    forked.py SOCKET MODULE [ARGUMENT...]

hands the arguments, directory, environment and standard streams to the server and ends as the
fork does.  This file is run as a script by ``test/lit.cfg`` and imports next to nothing.
"""

from __future__ import annotations

import os
import socket
import sys

LENGTH = 8
"""Bytes that say how long a request is."""

BROKEN = 70
"""The exit code for a fork that ended without one: EX_SOFTWARE of sysexits.h."""


def ask(path: str, arguments: list[str]) -> int:
    """Run ``MODULE ARGUMENT...`` in a fork of the server at ``path``: the code it ends with."""
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    words = [os.getcwd(), str(len(variables)), *variables, *arguments]
    request = "\0".join(words).encode("utf-8", "surrogateescape")
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [len(request).to_bytes(LENGTH, "big")], [0, 1, 2])
        server.sendall(request)
        answer = server.recv(1)
    return answer[0] if answer else BROKEN


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
