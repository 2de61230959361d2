"""What would win without any idea scores nothing: constants, copies, labels that could be computed.

And every scorer refuses what is no prediction, with the exit status that blames the candidate.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes_kit import BAD_PREDICTIONS, NAMES, Topic, folder_of

from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.launching.rehearsal import rehearse
from hpcscientist.recipe import load
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Scored, Split

Find = Callable[[str], Topic]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Find:
    made: dict[str, Topic] = {}

    def find(name: str) -> Topic:
        if name not in made:
            made[name] = Topic.of(name, tmp_path_factory.mktemp(name))
        return made[name]

    return find


def array(values: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values))
    return file.getvalue()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(
    header: str, ids: Iterator[int] | range | list[int], value: Callable[[int], object]
) -> str:
    return f"{header}\n" + "".join(f"{i},{value(i)}\n" for i in ids)


NO_PREDICTIONS = (b"id,label\n", pickle.dumps([1.0]), b"\x93NUMPY\x01\x00", b"\xff" * 4096)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
@pytest.mark.parametrize(
    "content", [b"", *(pytest.param(one, marks=pytest.mark.full) for one in NO_PREDICTIONS)]
)
def test_what_is_no_prediction_is_refused(topic: Find, name: str, content: bytes) -> None:
    assert topic(name).score(content) == BAD_PREDICTIONS


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_no_file_is_shown_that_only_the_scorer_may_see(topic: Find, name: str) -> None:
    found = topic(name)
    hidden = [p.read_bytes() for split in Split for p in found.prepared.labels[split].iterdir()]
    shown = [p.read_bytes() for p in found.train.parent.rglob("*") if p.is_file()]
    assert hidden and not any(secret in text for secret in hidden for text in shown)
    assert not (found.train.parent / "test").exists()


class TestDiffusion2d:
    def test_copies_of_training_points_are_refused(self, topic: Find) -> None:
        found = topic("diffusion2d")
        train = np.load(found.train / "points.npy")
        rng = np.random.default_rng(1)
        picked = train[:, rng.permutation(train.shape[1])[:2000]]
        assert found.score(array(picked)) == BAD_PREDICTIONS
        moved = picked + rng.normal(0, 1e-4, picked.shape)
        assert found.score(array(moved)) == BAD_PREDICTIONS

    def test_half_of_them_copies_are_refused_too(self, topic: Find) -> None:
        found = topic("diffusion2d")
        train = np.load(found.train / "points.npy")
        rng = np.random.default_rng(2)
        mixed = np.concatenate([train[:, :1000], rng.normal(0, 1, (4, 1000, 2))], axis=1)
        assert found.score(array(mixed)) == BAD_PREDICTIONS

    def test_one_good_point_again_and_again_is_refused(self, topic: Find) -> None:
        found = topic("diffusion2d")
        point = np.load(found.train / "points.npy")[:, :1] + 0.01
        assert found.score(array(np.repeat(point, 2000, axis=1))) == BAD_PREDICTIONS

    def test_plain_noise_is_far_off(self, topic: Find) -> None:
        noise = np.random.default_rng(3).normal(0, 0.6, (4, 2000, 2))
        metrics = topic("diffusion2d").score(array(noise))
        assert isinstance(metrics, dict) and metrics["energy_distance"] > 0.02


class TestGrokking:
    def test_what_the_operation_s_name_says_is_wrong(self, topic: Find) -> None:
        found = topic("grokking")
        asked = {int(row["id"]): row for row in rows(found.asked / "cells.csv")}

        def computed(i: int) -> int:
            return (int(asked[i]["left"]) + int(asked[i]["right"])) % 29

        metrics = found.score(table("id,result", list(asked), computed))
        assert isinstance(metrics, dict) and metrics["accuracy"] < 0.12

    def test_no_held_out_cell_can_be_looked_up(self, topic: Find) -> None:
        found = topic("grokking")
        keys = ("operation", "left", "right")
        known, asked = (
            {tuple(row[key] for key in keys) for row in rows(part / "cells.csv")}
            for part in (found.train, found.asked)
        )
        assert asked and not known & asked


class TestCharLm:
    def test_probabilities_that_sum_to_more_than_one_are_refused(self, topic: Find) -> None:
        found = topic("char-lm")
        size = self.size(found)
        assert found.score(array(np.zeros(size, np.float32))) == BAD_PREDICTIONS
        doubled = np.full(size, np.log(2 / size[1]), np.float32)
        assert found.score(array(doubled)) == BAD_PREDICTIONS
        wrong = np.full(size, np.nan, np.float32)
        assert found.score(array(wrong)) == BAD_PREDICTIONS

    def test_a_uniform_guess_has_the_alphabet_s_entropy(self, topic: Find) -> None:
        found = topic("char-lm")
        size = self.size(found)
        metrics = found.score(array(np.full(size, -np.log(size[1]))))
        assert isinstance(metrics, dict)
        assert metrics["nats_per_character"] == pytest.approx(np.log(size[1]))

    def test_no_context_shows_what_follows_another(self, topic: Find) -> None:
        """Nor does the text to train on: a context with what follows it is nowhere else."""
        found = topic("char-lm")
        contexts = np.load(found.asked / "contexts.npy")
        following = np.load(found.labels / "next.npy")
        everything = b"|".join(row.tobytes() for row in contexts)
        everything += b"|" + np.load(found.train / "text.npy").tobytes()
        for row, after in zip(contexts, following, strict=True):
            assert row.tobytes() + bytes([after]) not in everything

    def size(self, found: Topic) -> tuple[int, int]:
        contexts = np.load(found.asked / "contexts.npy")
        alphabet = (found.train / "alphabet.json").read_text()
        return len(contexts), len(json.loads(alphabet))


class TestGraph:
    def test_numbers_of_nodes_say_nothing_of_their_class(self, topic: Find) -> None:
        found = topic("graph")
        asked = [int(row["id"]) for row in rows(found.asked / "nodes.csv")]
        for guess in (lambda i: i % 7, lambda i: i * 7 // 2000, lambda i: 3):
            metrics = found.score(table("id,label", asked, guess))
            assert isinstance(metrics, dict) and metrics["accuracy"] < 0.25

    def test_no_node_is_both_known_and_asked_for(self, topic: Find) -> None:
        found = topic("graph")
        known = {row["id"] for row in rows(found.train / "labels.csv")}
        assert not known & {row["id"] for row in rows(found.asked / "nodes.csv")}


class TestRecommender:
    def test_a_constant_is_no_better_than_the_ratings_spread(self, topic: Find) -> None:
        found = topic("recommender")
        asked = [int(row["id"]) for row in rows(found.asked / "pairs.csv")]
        mean = np.mean([int(row["rating"]) for row in rows(found.train / "ratings.csv")])
        metrics = found.score(table("id,rating", asked, lambda i: f"{mean:.3f}"))
        assert isinstance(metrics, dict) and metrics["rmse"] > 1.03

    def test_the_place_of_a_pair_says_nothing_of_its_rating(self, topic: Find) -> None:
        hidden = rows(topic("recommender").labels / "ratings.csv")
        pairs = np.array([[int(row["id"]), int(row["rating"])] for row in hidden])
        assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.06

    @pytest.mark.parametrize("rating", ["0.9", "5.1", "nan", "inf", "1e0", "-3"])
    def test_ratings_out_of_the_scale_are_refused(self, topic: Find, rating: str) -> None:
        found = topic("recommender")
        asked = [int(row["id"]) for row in rows(found.asked / "pairs.csv")]
        assert found.score(table("id,rating", asked, lambda i: rating)) == BAD_PREDICTIONS


class TestClassification:
    @pytest.mark.parametrize(
        ("name", "classes", "most"),
        [
            ("text-classification", 2, 0.56),
            ("image-classification", 10, 0.14),
            ("point-cloud", 10, 0.14),
        ],
    )
    def test_constants_and_the_order_score_as_chance_does(
        self, topic: Find, name: str, classes: int, most: float
    ) -> None:
        found = topic(name)
        count = len(rows(found.labels / "labels.csv"))
        for guess in (lambda i: 0, lambda i: 1, lambda i: i % classes):
            metrics = found.score(table("id,label", range(count), guess))
            assert isinstance(metrics, dict) and metrics["accuracy"] < most

    def test_no_text_asked_for_is_among_those_with_labels(self, topic: Find) -> None:
        found = topic("text-classification")
        known = {row["text"] for row in rows(found.train / "texts.csv")}
        asked = {row["text"] for row in rows(found.asked / "texts.csv")}
        assert asked and not known & asked

    def test_no_image_occurs_twice(self, topic: Find) -> None:
        found = topic("image-classification")
        images = [np.load(part / "images.npy") for part in (found.train, found.asked)]
        texts = [image.tobytes() for part in images for image in part]
        assert len(texts) == len(set(texts))


class TestPointCloud:
    """A cloud that shows anything but its shape: its order, its size, how it was drawn."""

    def clouds(self, found: Topic) -> tuple[np.ndarray, np.ndarray]:
        known, asked = (np.load(part / "clouds.npy") for part in (found.train, found.asked))
        return known, asked

    def test_no_cloud_occurs_twice(self, topic: Find) -> None:
        clouds = np.concatenate(self.clouds(topic("point-cloud")))
        whatever_order = [np.sort(cloud.round(3), axis=0).tobytes() for cloud in clouds]
        assert len(whatever_order) == len(set(whatever_order))

    def test_place_size_and_count_say_nothing_of_a_kind(self, topic: Find) -> None:
        for clouds in self.clouds(topic("point-cloud")):
            assert clouds.shape[1:] == (96, 3) and clouds.dtype == np.float32
            assert np.allclose(clouds.mean(axis=1), 0, atol=1e-5)
            assert np.allclose(np.linalg.norm(clouds, axis=2).max(axis=1), 1, atol=1e-5)

    def test_the_order_of_points_says_nothing_of_a_kind(self, topic: Find) -> None:
        """The nearest training cloud by first points alone guesses as chance does."""
        found = topic("point-cloud")
        known, asked = (clouds[:, 0] for clouds in self.clouds(found))
        labels = np.load(found.train / "labels.npy")
        order = np.linalg.norm(asked[:, None] - known[None], axis=2).argmin(axis=1)
        metrics = found.score(table("id,label", range(len(asked)), lambda i: labels[order[i]]))
        assert isinstance(metrics, dict) and metrics["accuracy"] < 0.25

    def test_a_neighbour_in_the_file_is_no_relative(self, topic: Find) -> None:
        labels = np.load(topic("point-cloud").train / "labels.npy")
        assert np.mean(labels[1:] == labels[:-1]) < 0.14


class TestImageDiffusion:
    """Images that are drawn without a model that can draw."""

    def score(self, found: Topic, images: np.ndarray) -> dict[str, Any] | int:
        return found.score(array(np.rint(images).clip(0, 255).astype(np.uint8)))

    @pytest.mark.parametrize(
        "changed",
        [
            lambda images: images,
            lambda images: images[:, ::-1],
            lambda images: np.rot90(images, axes=(1, 2)),
            lambda images: np.roll(images, (1, -1), axis=(1, 2)),
            lambda images: 0.8 * images + 20,
            lambda images: images + np.random.RandomState(0).normal(0, 10, images.shape),
        ],
        ids=["copies", "mirrored", "turned", "moved", "duller", "noisy"],
    )
    def test_copies_are_refused_however_they_are_changed(
        self, topic: Find, changed: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        found = topic("image-diffusion")
        known = np.load(found.train / "images.npy")[:500].astype(float)
        assert self.score(found, changed(known)) == BAD_PREDICTIONS

    def test_what_no_network_drew_is_far_off(self, topic: Find) -> None:
        """The reference has a distance of 0.02; images like the private ones, of 0."""
        found = topic("image-diffusion")
        known = np.load(found.train / "images.npy").astype(float)
        flat, rng = known.reshape(len(known), -1), np.random.RandomState(0)
        law = rng.multivariate_normal(flat.mean(0), np.cov(flat.T), 500).reshape(-1, 16, 16, 1)
        mixed = (known[:500] + known[500:1000]) / 2
        for images in (law, mixed, rng.uniform(0, 255, law.shape)):
            metrics = self.score(found, images)
            assert isinstance(metrics, dict) and metrics["feature_distance"] > 0.04
        one = np.repeat(known[:1], 500, axis=0)
        assert self.score(found, one) == BAD_PREDICTIONS


CODER = """
import argparse
from pathlib import Path
import numpy as np
parser = argparse.ArgumentParser()
for name in ("data", "out", "seed", "budget", "split", "process"):
    parser.add_argument("--" + name)
args = parser.parse_args()
data, out = Path(args.data), Path(args.out)
if args.process == "fit":
    (out / "model.npz").write_bytes(b"x")
elif args.process == "encode":
    pixels = np.load(data / args.split / "images.npy").tobytes()
    (out / "code.bin").write_bytes(pixels[:SHARE])
else:
    known = (data / "encode" / "code.bin").read_bytes()
    images = np.full(500 * 16 * 16 * 3, 128, np.uint8)
    images[: len(known)] = np.frombuffer(known, np.uint8)
    np.save(out / "reconstructions.npy", images.reshape(500, 16, 16, 3))
"""


class TestVq:
    def coded(self, tmp_path: Path, share: str) -> Outcome:
        """What a candidate gets that hands on the images themselves, as much as `share` says."""
        copy = tmp_path / "vq"
        load.copy(folder_of("vq"), copy)
        script = copy / "reference" / "experiment.py"
        knobs = "".join(re.findall(r"^[A-Z_]+ = .*\n", script.read_text(), re.MULTILINE))
        script.write_text(knobs + CODER.replace("SHARE", share))
        paths = PathSettings(data=str(tmp_path / "data"), private=str(tmp_path / "labels"))
        (rehearsal,) = rehearse(load.load(copy), Settings(paths=paths))
        return rehearsal.report.outcome

    def test_a_copy_of_the_input_is_refused(self, tmp_path: Path) -> None:
        outcome = self.coded(tmp_path, "None")
        assert isinstance(outcome, IdeaFailed)
        assert outcome.failure is IdeaFailure.BAD_PREDICTIONS and "code.bin" in outcome.detail

    def test_as_much_of_it_as_goes_in_is_of_no_use(self, tmp_path: Path) -> None:
        outcome = self.coded(tmp_path, "6000")
        assert isinstance(outcome, Scored) and outcome.metrics["rmse"] > 45

    def test_one_grey_for_all_is_far_off(self, topic: Find) -> None:
        metrics = topic("vq").score(array(np.full((500, 16, 16, 3), 128, np.uint8)))
        assert isinstance(metrics, dict) and metrics["rmse"] > 45


def test_what_is_trained_on_twice_is_prepared_alike(topic: Find, tmp_path: Path) -> None:
    for name in ("grokking", "text-classification"):
        again = Topic.of(name, tmp_path / name)
        assert again.prepared.data_hash == topic(name).prepared.data_hash
