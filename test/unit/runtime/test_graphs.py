"""Streams and graphs through the driver; test_gpu.py of tuning times launches by them."""

from __future__ import annotations

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.graphs import Graph, Stream
from polyc.test.support.running_cuda import RunningCuda


def test_events_are_given_back_also_where_a_launch_fails(running: RunningCuda) -> None:
    with driver.current():
        graph = Graph(Stream(), lambda: None)
        assert graph.seconds(2) == 0.0 and running.replays == 2
        running.fail["cuGraphLaunch"] = 700
        with pytest.raises(PolycError, match="cuGraphLaunch answered CUDA_ERROR_700"):
            graph.seconds(1)
    assert running.events_left == 0


def test_a_capture_ends_where_its_body_fails(running: RunningCuda) -> None:
    def body() -> None:
        raise PolycError("LaunchFailed", "no")

    with driver.current():
        stream = Stream()
        with pytest.raises(PolycError, match="LaunchFailed"):
            Graph(stream, body)
        Graph(stream, lambda: None)
