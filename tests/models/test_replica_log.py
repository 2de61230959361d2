"""What is said of an engine that ended before it answered."""

import pytest

from hpcscientist.models.serving.nodes.replica import last_words

LOST = "ModuleNotFoundError: No module named 'flashinfer'"
SERVER = "RuntimeError: Engine core initialization failed. See root cause above."


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            f"(EngineCore pid=1) {LOST}\n(APIServer pid=2) Traceback\n(APIServer pid=2) {SERVER}",
            LOST,
        ),
        (f"INFO\n{SERVER}\n", SERVER),
        (f"{LOST}\nValueError: too long: 4 GiB\nbye\n", "ValueError: too long: 4 GiB"),
        ("killed\n\n", "killed"),
        ("", " said nothing"),
    ],
)
def test_the_cause_is_named(log: str, said: str) -> None:
    assert last_words(log).endswith(said)
