"""What a proposal changes, by the names of the reference's code that it writes."""

from __future__ import annotations

import pytest
from proposing_kit import digits

from hpcscientist.ideation.bank import Bank, defined, touched
from hpcscientist.records.idea import Proposal

REFERENCE = {
    "experiment.py": "BATCH_SIZE = 32\nEPOCHS: int = 3\n\n\ndef train():\n    inner = 1\n",
    "notes.txt": "Not = Python at all",
    "other.py": "OTHER = 1\n",
}
NAMES = defined(REFERENCE, ["experiment.py", "notes.txt", "gone.py"])


def proposal(method: str, title: str = "t") -> Proposal:
    return Proposal(title=title, hypothesis="h", method=method, experiment_plan="p", summary="s")


def test_names_are_those_at_the_top_of_editable_files() -> None:
    assert {"batch_size", "epochs", "train"} == NAMES
    assert {"batch_size", "learning_rate", "forward"} <= defined(
        digits().reference, digits().spec.editable
    )


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("Modify the `batch_size` parameter to 64", ("batch_size",)),
        ("Set BATCH_SIZE = 64 and `EPOCHS=9`.", ("batch_size", "epochs")),
        ("Call train() twice.", ("train",)),
        ("In `experiment.train` add noise.", ("train",)),
        ("Train longer, in more epochs and a larger batch size.", ()),
        ("`other` and inner_name", ()),
        ("", ()),
    ],
)
def test_a_name_counts_where_it_is_written_as_code(method: str, names: tuple[str, ...]) -> None:
    assert touched(proposal(method or "m"), NAMES) == names


def test_the_same_change_under_a_like_title_is_alike_and_another_is_not() -> None:
    bank = Bank()
    bank.add("idea-0001", "One thing.", None, "Increase Batch Size", ("batch_size",))
    near = bank.look_alike("Another.", "Increase the Batch Size", ("batch_size",))
    assert near is not None
    assert (near.idea_id, near.changes) == ("idea-0001", ("batch_size",))
    assert near.cosine == pytest.approx(4 / 35**0.5)  # of 5 and 7 words and pairs
    assert bank.look_alike("Another.", "Smaller batches early on", ("batch_size",)) is None
    other = "Increase the Batch Size"
    assert bank.look_alike("Another.", other, ("batch_size", "train")) is None
    assert bank.look_alike("Another.", other) is None
    off = Bank(1.0)
    off.add("idea-0001", "One thing.", None, "Increase Batch Size", ("batch_size",))
    assert off.look_alike("Another.", "Increase Batch Size", ("batch_size",)) is None
