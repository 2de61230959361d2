from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.execution.bounds.supervise import BoundedLog


@given(st.lists(st.binary(max_size=40)), st.integers(0, 30), st.integers(0, 30))
def test_keeps_head_and_tail_and_counts_the_rest(chunks: list[bytes], head: int, tail: int) -> None:
    target = io.BytesIO()
    log = BoundedLog(target, head, tail)
    for chunk in chunks:
        log.write(chunk)
    log.finish()
    everything, kept = b"".join(chunks), target.getvalue()
    assert kept.startswith(everything[:head])
    if len(everything) <= head + tail:
        assert (kept, log.dropped) == (everything, 0)
        return
    assert log.dropped == len(everything) - head - tail
    assert f"[... {log.dropped} bytes".encode() in kept
    assert kept.endswith(everything[len(everything) - tail :])


def test_a_full_disk_costs_text_only() -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        log = BoundedLog(full)
        log.write(b"text")
        log.finish()
        assert log.dropped == 0  # the target refused it; the bound did not
