"""Asks Perfetto's own trace processor about a trace (trace_processor.mjs)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).resolve().parent
PROCESSOR = _HERE.parents[1] / "build/perfetto"
_PATIENCE_S = 120


def _node() -> str:
    """The one that playwright brings along."""
    driver = pytest.importorskip("playwright._impl._driver")
    return str(driver.compute_driver_executable()[0])


def _run(requests: bytes) -> bytes:
    command = [_node(), str(_HERE / "trace_processor.mjs"), str(PROCESSOR)]
    ran = subprocess.run(command, input=requests, capture_output=True, timeout=_PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def ask(trace: bytes, queries: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The rows of each query over the trace. Skips the test where there is no trace processor."""
    if not (PROCESSOR / "trace_processor.wasm").is_file():
        pytest.skip("Perfetto's trace processor is not there: ./dev test fetches it where there is npm")
    protos = pytest.importorskip("perfetto.trace_processor.protos")
    platform = pytest.importorskip("perfetto.trace_processor.platform")
    iterator = pytest.importorskip("perfetto.common.query_result_iterator").QueryResultIterator
    messages = protos.ProtoFactory(platform.PlatformDelegate())
    rpc = messages.TraceProcessorRpc
    requests = messages.TraceProcessorRpcStream()
    requests.msg.add(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
    requests.msg.add(request=rpc.TPM_FINALIZE_TRACE_DATA)
    for query in queries:
        requests.msg.add(request=rpc.TPM_QUERY_STREAMING, query_args={"sql_query": query})
    replies = messages.TraceProcessorRpcStream.FromString(_run(requests.SerializeToString())).msg
    assert len(replies) == len(requests.msg), "a result in parts: ask for fewer rows"
    for reply in replies:
        error = reply.append_result.error or reply.finalize_data_result.error or reply.query_result.error
        assert not (error or reply.fatal_error), error or reply.fatal_error
    results = [reply.query_result for reply in replies[2:]]
    return [[vars(row) for row in iterator(result.column_names, result.batch)] for result in results]
