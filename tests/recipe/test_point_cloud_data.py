"""`prepare.py` of point-cloud reads ModelNet40's archive and Sweet Home 3D's catalogues.

Both are made here: the real ones are large, and no package has ModelNet40.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from recipes_kit import folder_of

CATALOGUES = ("BlendSwap-CC-0", "BlendSwap-CC-BY", "KatorLegaz", "Reallusion", "Scopia")
SQUARE = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0))


def prepared(room: Path, given: Path) -> Path:
    """What prepare.py writes of a folder, with four objects in ModelNet40's validation."""
    script = room / "prepare.py"
    text = (folder_of("point-cloud") / "prepare.py").read_text()
    script.write_text(text.replace("HELD_OUT = 500", "HELD_OUT = 4"))
    command = [sys.executable, "-W", "error", str(script), "--out", str(room / "out")]
    done = subprocess.run(
        [*command, "--data", str(given)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return room / "out"


def labels_of(out: Path) -> dict[str, list[int]]:
    found = {"train": [int(label) for label in np.load(out / "public" / "train" / "labels.npy")]}
    for part in ("validation", "test"):
        lines = (out / "private" / part / "labels.csv").read_text().split()[1:]
        assert [int(line.split(",")[0]) for line in lines] == list(range(len(lines)))
        found[part] = [int(line.split(",")[1]) for line in lines]
    return found


def clouds_of(out: Path, part: str) -> np.ndarray:
    return np.load(out / "public" / part / "clouds.npy")


def flat(glued: bool, sides: int, turn: int) -> str:
    """A square in the file format OFF, standing on x or lying, as one polygon or two triangles."""
    corners = [corner[-turn:] + corner[:-turn] for corner in SQUARE]
    faces = ["4 0 1 2 3"] if sides == 4 else ["3 0 1 2", "3 0 2 3"]
    rows = [" ".join(map(str, corner)) for corner in corners]
    return "OFF" + ("" if glued else "\n") + "\n".join([f"4 {len(faces)} 0", *rows, *faces, ""])


@pytest.fixture(scope="module")
def modelnet40(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airplanes lie and beds stand; counts follow OFF directly in half of the files."""
    room = tmp_path_factory.mktemp("modelnet40")
    with zipfile.ZipFile(room / "ModelNet40.zip", "w") as archive:
        for turn, kind in enumerate(("airplane", "bed")):
            for part, count in (("train", 8), ("test", 3)):
                for i in range(count):
                    name = f"ModelNet40/{kind}/{part}/{kind}_{i:04d}.off"
                    archive.writestr(name, flat(i % 2 == 0, 3 + i // 2 % 2, turn))
        archive.writestr("__MACOSX/ModelNet40/bed/train/._bed_0001.off", "no mesh")
    return prepared(room, room)


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten chairs and tables each; of the 21st chair the mesh is the first one's."""
    room = tmp_path_factory.mktemp("household")
    told = []
    with zipfile.ZipFile(room / "Scopia.sh3f", "w") as archive:
        names = ["Chair with cushion", "Glass table"] * 10 + ["Chair", "Chessboard"]
        for i, name in enumerate(names, start=1):
            told.append(f"name#{i}={name}\nmodel#{i}=/a/{i}.obj\n")
            high = 1 + i % 20
            rows = [f"v {x} {high * y} {z}" for x, y, z in SQUARE]
            archive.writestr(f"a/{i}.obj", "\n".join([*rows, "f 1/1 2/2 3//3 4", ""]))
        archive.writestr("PluginFurnitureCatalog.properties", "".join(told))
    for catalogue in CATALOGUES[:-1]:
        with zipfile.ZipFile(room / f"{catalogue}.sh3f", "w") as archive:
            archive.writestr("PluginFurnitureCatalog.properties", "name=nothing\n")
    return prepared(room, room)


class TestModelNet40:
    def test_its_own_test_is_the_test_and_validation_is_cut_from_train(
        self, modelnet40: Path
    ) -> None:
        found = labels_of(modelnet40)
        assert {part: len(own) for part, own in found.items()} == {
            "train": 12,
            "validation": 4,
            "test": 6,
        }
        assert Counter(found["test"]) == {0: 3, 1: 3}
        assert Counter(found["train"] + found["validation"]) == {0: 8, 1: 8}

    def test_every_way_to_write_a_mesh_gives_its_points_and_its_label(
        self, modelnet40: Path
    ) -> None:
        for part, labels in labels_of(modelnet40).items():
            for cloud, label in zip(clouds_of(modelnet40, part), labels, strict=True):
                axis = (2, 0)[label]  # along which the square has no extent
                assert np.ptp(cloud, axis=0).argmin() == axis and np.ptp(cloud[:, axis]) == 0


class TestHousehold:
    def test_kinds_are_cut_three_to_one_to_one_and_no_mesh_counts_twice(
        self, household: Path
    ) -> None:
        found = {part: Counter(labels) for part, labels in labels_of(household).items()}
        assert found == {
            "train": {0: 6, 2: 6},
            "validation": {0: 2, 2: 2},
            "test": {0: 2, 2: 2},
        }

    def test_what_was_high_along_y_is_high_along_z(self, household: Path) -> None:
        for part in ("train", "validation", "test"):
            extent = np.ptp(clouds_of(household, part), axis=1)
            assert (extent[:, 1] == 0).all() and (extent[:, 2] > 0).all()
            assert (extent[:, 2] >= extent[:, 0] * 0.8).all()
