"""Point clouds of objects: some labelled to train on, others whose labels are withheld.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy, and is deterministic. Without a folder the objects are
generated: ten kinds of household things, put together from boxes and tubes, each seen in part and
turned. A folder holds ModelNet40.zip, or the *.sh3f catalogues of Debian's package
sweethome3d-furniture. Writes

    DIR/public/train/            clouds.npy (n, POINTS, 3) float32, z upwards; labels.npy (n,)
    DIR/public/validation|test/  clouds.npy
    DIR/private/validation|test/ labels.csv: id,label; an id is the cloud's row

Points are drawn uniformly from an object's surface, and a cloud is moved and scaled into the unit
ball. ModelNet40's test is the test, and validation is cut from its training data.
"""

import argparse
import re
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np

POINTS = 96
TRAIN = 800  # generated objects with labels
HELD_OUT = 500  # objects of each other split; of ModelNet40's training data, those of validation
UNSEEN = 0.2  # share of a generated object that a plane cuts off
NOISE = 0.015  # standard deviation of a generated object's points

SEED = [0x91D3A07E, 0x4C68F2B5, 0xE20B9D17, 0x5F7A36C8]  # 128 bits: nobody tries them all

CATALOGUES = ("BlendSwap-CC-0", "BlendSwap-CC-BY", "KatorLegaz", "Reallusion", "Scopia")
NOUNS = {  # what the last word of a name in a catalogue says of the object
    "chair": "chair",
    "sofa": "armchair sofa couch seats",
    "table": "table desk",
    "bed": "bed crib futon",
    "lamp": "lamp light lights lamppost chandelier lantern",
    "cabinet": "cabinet wardrobe bookcase shelves cupboard dresser",
    "plant": "plant plants tree palm pine cypress ficus bamboo yucca poplar maple tulips flowers",
    "opening": "door window panes",
    "person": "female male boy girl",
    "vessel": "bottle vase glass cup mug jar",
}


def prism(sides, middle, size, top=1.0, lean=(0.0, 0.0)):
    """Return vertices and triangles: a box for 4 sides, a tube for more.

    `middle` is the middle of the foot, `size` is width, depth and height; the upper end is `top`
    times as wide as the foot, and moved by `lean`.
    """
    turn = 2 * np.pi * (np.arange(sides) + 0.5) / sides
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1) / (2 * np.cos(np.pi / sides))
    foot = np.column_stack([ring * size[:2], np.zeros(sides)])
    head = np.column_stack([ring * size[:2] * top + lean, np.full(sides, size[2])])
    i, j = np.arange(sides), (np.arange(sides) + 1) % sides
    flat = np.column_stack([np.zeros(sides - 2, int), i[1:-1], i[2:]])
    faces = [np.column_stack([i, j, i + sides]), np.column_stack([j, j + sides, i + sides])]
    return np.concatenate([foot, head]) + middle, np.concatenate([*faces, flat, flat + sides])


def joined(parts):
    """Return the vertices and triangles of several parts as those of one object."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    faces = [own + start for (_, own), start in zip(parts, starts, strict=False)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces)


def legs(rng, w, d, h):
    """Return four legs below a plate, or one on a foot."""
    thick = rng.uniform(0.04, 0.08)
    if rng.rand() < 0.25:
        foot = prism(12, (0, 0, 0), (0.7 * w, 0.7 * d, 0.04))
        return [foot, prism(12, (0, 0, 0), (thick * 1.5, thick * 1.5, h))]
    sides, splay = rng.choice([4, 12]), rng.uniform(0.75, 0.95)
    corners = [(x * w / 2, y * d / 2) for x in (-splay, splay) for y in (-splay, splay)]
    return [prism(sides, (x, y, 0), (thick, thick, h)) for x, y in corners]


def stool(rng, w, d, h):
    return [*legs(rng, w, d, h), prism(rng.choice([4, 12]), (0, 0, h), (w, d, 0.06))]


def seat(rng, back):
    u = rng.uniform
    w, d, h = u(0.4, 0.55), u(0.4, 0.55), u(0.4, 0.75)
    parts = stool(rng, w, d, h)
    if back:
        high = u(0.2, 0.6)
        parts.append(prism(4, (0, d / 2, h), (w, 0.05, high), u(0.7, 1), (0, u(0, 0.15))))
        if rng.rand() < 0.4:
            arm = u(0.12, 0.22)
            parts += [prism(4, (x, 0, h + arm), (0.05, d, 0.04)) for x in (-w / 2, w / 2)]
    return parts


def table(rng, desk):
    u = rng.uniform
    w, d, h = u(0.6, 1.6), u(0.6, 0.9), u(0.45, 0.8)
    if not desk:
        return [*legs(rng, w, d, h), prism(rng.choice([4, 12]), (0, 0, h), (w, d, 0.05))]
    parts = [prism(4, (0, 0, h), (w, d, 0.05))]
    side, block = rng.choice([-1, 1]), u(0.2, 0.4) * w
    parts.append(prism(4, (side * (w - block) / 2, 0, u(0, 0.2)), (block, d, 0.8 * h)))
    parts.append(prism(4, (-side * w / 2, 0, 0), (0.05, d, h)))
    if rng.rand() < 0.5:
        parts.append(prism(4, (0, d / 2, 0.3 * h), (w, 0.03, 0.7 * h)))
    return parts


def bed(rng):
    u = rng.uniform
    w, d, h = u(0.8, 1.8), u(1.8, 2.1), u(0.25, 0.55)
    parts = [prism(4, (0, 0, u(0, 0.15)), (w, d, h)), prism(4, (0, d / 2, 0), (w, 0.08, 2 * h))]
    if rng.rand() < 0.5:
        parts.append(prism(4, (0, -d / 2, 0), (w, 0.08, u(1.1, 1.6) * h)))
    return parts


def sofa(rng):
    u = rng.uniform
    w, d, h = u(0.8, 2.2), u(0.8, 1.0), u(0.35, 0.45)
    back, arm = u(0.15, 0.3), u(0.12, 0.25)
    parts = [prism(4, (0, 0, u(0, 0.1)), (w, d, h))]
    parts.append(prism(4, (0, (d - back) / 2, h), (w, back, u(0.3, 0.5)), 1, (0, u(0, 0.1))))
    for x in (-(w - arm) / 2, (w - arm) / 2):
        parts.append(prism(rng.choice([4, 12]), (x, 0, h), (arm, d, u(0.15, 0.25))))
    return parts


def cupboard(rng, closed):
    u = rng.uniform
    w, d, h = u(0.6, 1.4), u(0.3, 0.6), u(1.0, 2.1)
    if closed:
        parts = [prism(4, (0, 0, 0.05), (w, d, h)), prism(4, (0, 0, 0), (0.9 * w, 0.9 * d, 0.05))]
        handles = [prism(12, (x, -d / 2, h / 2), (0.04, 0.08, 0.2)) for x in (-0.05, 0.05)]
        return parts + handles
    heights = np.linspace(0, h, rng.randint(3, 7))
    parts = [prism(4, (x, 0, 0), (0.03, d, h)) for x in (-w / 2, w / 2)]
    parts += [prism(4, (0, 0, z), (w, d, 0.03)) for z in heights]
    if rng.rand() < 0.6:
        parts.append(prism(4, (0, d / 2, 0), (w, 0.02, h)))
    return parts


def lamp(rng):
    u = rng.uniform
    foot, h, shade = u(0.2, 0.4), u(0.4, 1.7), u(0.25, 0.5)
    parts = [prism(12, (0, 0, 0), (foot, foot, 0.05)), prism(12, (0, 0, 0), (0.05, 0.05, h))]
    return [*parts, prism(12, (u(0, 0.3), 0, h), (shade, shade, u(0.2, 0.4)), u(0.3, 1))]


def plant(rng):
    u = rng.uniform
    pot, h = u(0.2, 0.4), u(0.2, 0.4)
    parts = [prism(12, (0, 0, 0), (pot, pot, h), u(1, 1.4))]
    for _ in range(rng.randint(5, 15)):
        turn, out = u(0, 2 * np.pi), u(0.05, 0.5)
        lean = (out * np.cos(turn), out * np.sin(turn))
        parts.append(prism(4, (0, 0, h), (0.06, 0.06, u(0.3, 1.2)), u(0.3, 2.5), lean))
    return parts


THINGS = (  # each returns the parts of a thing, its front at negative y
    lambda rng: seat(rng, back=True),
    lambda rng: seat(rng, back=False),
    lambda rng: table(rng, desk=False),
    lambda rng: table(rng, desk=True),
    bed,
    sofa,
    lambda rng: cupboard(rng, closed=False),
    lambda rng: cupboard(rng, closed=True),
    lamp,
    plant,
)


def sampled(vertices, faces, rng, count):
    """Return `count` points, uniform on the surface of the triangles; of no area, its vertices."""
    a, b, c = vertices[faces.T]
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    if not area.sum() > 0:
        return vertices[rng.randint(len(vertices), size=count)]
    chosen = np.searchsorted(np.cumsum(area) / area.sum(), rng.rand(count)).clip(max=len(area) - 1)
    s, t = rng.rand(2, count, 1)
    s, t = np.where(s + t > 1, 1 - s, s), np.where(s + t > 1, 1 - t, t)
    return a[chosen] + s * (b - a)[chosen] + t * (c - a)[chosen]


def fitted(points):
    """Return points moved and scaled into the unit ball, so that no size tells an object."""
    points = points - points.mean(axis=0)
    return (points / np.linalg.norm(points, axis=1).max()).astype(np.float32)


def scanned(vertices, faces, rng):
    """Return a cloud of a generated object: turned, what lies behind a plane unseen, with noise."""
    points = sampled(vertices * rng.uniform(0.8, 1.2, 3), faces, rng, round(POINTS / (1 - UNSEEN)))
    points = points[np.argsort(points @ rng.normal(size=3))[:POINTS]]
    points = fitted(points[rng.permutation(POINTS)])
    turn = rng.uniform(0, 2 * np.pi)
    x, y = points[:, 0].copy(), points[:, 1].copy()
    points[:, 0] = x * np.cos(turn) - y * np.sin(turn)
    points[:, 1] = x * np.sin(turn) + y * np.cos(turn)
    return fitted(points + rng.normal(0, NOISE, points.shape))


def generated(rng):
    """Return clouds and labels of train, validation and test."""
    labels = rng.permutation(np.arange(TRAIN + 2 * HELD_OUT) % len(THINGS))
    clouds = np.stack([scanned(*joined(THINGS[label](rng)), rng) for label in labels])
    ends = [TRAIN, TRAIN + HELD_OUT]
    return list(zip(np.split(clouds, ends), np.split(labels, ends), strict=True))


def fans(corners):
    """Return polygons, lists of vertices' numbers, as triangles."""
    return np.array([(p[0], *pair) for p in corners for pair in pairwise(p[1:])])


def read_off(text):
    """Return the vertices and triangles of a file OFF; in some the counts follow OFF directly."""
    numbers = np.fromstring(text.removeprefix("OFF"), sep=" ")
    count, polygons = int(numbers[0]), int(numbers[1])
    vertices, rest = numbers[3 : 3 + 3 * count].reshape(-1, 3), numbers[3 + 3 * count :].astype(int)
    if len(rest) == 4 * polygons and (rest[::4] == 3).all():
        return vertices, rest.reshape(-1, 4)[:, 1:]
    corners, place = [], 0
    for _ in range(polygons):
        corners.append(rest[place + 1 : place + 1 + rest[place]])
        place += 1 + rest[place]
    return vertices, fans(corners)


def read_obj(text):
    """Return the vertices and triangles of a file OBJ, y upwards."""
    rows = re.findall(r"^v\s+(\S+)\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    corners = []
    for line in re.findall(r"^f\s+(.+)", text, re.MULTILINE):
        corners.append([int(corner.split("/")[0]) - 1 for corner in line.split()])
    return np.array(rows, dtype=float), fans(corners)


def modelnet40(folder, rng):
    """Return the same of ModelNet40, an archive of KIND/train|test/NAME.off below one folder."""
    clouds = {"train": ([], []), "test": ([], [])}
    with zipfile.ZipFile(folder / "ModelNet40.zip") as archive:
        names = [name.split("/") for name in archive.namelist() if name.endswith(".off")]
        names = sorted(name for name in names if name[0] == "ModelNet40" and len(name) == 4)
        kinds = sorted({name[1] for name in names})
        for _, kind, part, file in names:
            text = archive.read(f"ModelNet40/{kind}/{part}/{file}").decode("ascii")
            clouds[part][0].append(fitted(sampled(*read_off(text), rng, POINTS)))
            clouds[part][1].append(kinds.index(kind))
    known, test = (
        (np.stack(own)[order], np.array(labels)[order])
        for own, labels in clouds.values()
        for order in [rng.permutation(len(own))]
    )
    cut = [(known[0][rows], known[1][rows]) for rows in (np.s_[HELD_OUT:], np.s_[:HELD_OUT])]
    return [*cut, test]


def kind_of(name):
    """Return what an English name says of an object: 'Chair with cushion' is a chair."""
    words = re.findall(r"[a-z]+", re.split(r",| with | on | under ", name.lower())[0])
    kinds = [kind for kind, nouns in NOUNS.items() if words and words[-1] in nouns.split()]
    return kinds[0] if kinds else None


def household(folder, rng):
    """Return the same of the catalogues: three fifths, a fifth and a fifth of each kind."""
    meshes = {}
    for catalogue in CATALOGUES:
        with zipfile.ZipFile(folder / f"{catalogue}.sh3f") as archive:
            text = archive.read("PluginFurnitureCatalog.properties").decode("latin1")
            told = {m[1]: m[2].strip() for m in re.finditer(r"^([\w#]+)\s*=(.*)$", text, re.M)}
            for key in [key for key in told if key.startswith("name#")]:
                kind = kind_of(told[key])
                if kind is None:
                    continue
                model = told[key.replace("name", "model")].lstrip("/")
                vertices, faces = read_obj(archive.read(model).decode("latin1"))
                turn = told.get(key.replace("name", "modelRotation"), "1 0 0 0 1 0 0 0 1")
                upright = vertices @ np.array(turn.split(), dtype=float).reshape(3, 3).T
                # y is upwards and z to the front; an object that occurs twice counts once
                meshes[vertices.tobytes()] = (kind, upright[:, [0, 2, 1]] * (1, -1, 1), faces)
    kinds = list(NOUNS)
    parts = [[], [], []]
    for kind in kinds:
        own = [mesh for mesh in meshes.values() if mesh[0] == kind]
        ends = [3 * len(own) // 5, 4 * len(own) // 5]
        for part, rows in zip(parts, np.split(rng.permutation(len(own)), ends), strict=True):
            part += [own[i] for i in rows]
    found = []
    for part in parts:
        order = rng.permutation(len(part))
        clouds = [fitted(sampled(*part[i][1:], rng, POINTS)) for i in order]
        found.append((np.stack(clouds), np.array([kinds.index(part[i][0]) for i in order])))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    if args.data is None:
        parts = generated(rng)
    else:
        read = modelnet40 if (args.data / "ModelNet40.zip").exists() else household
        parts = read(args.data, rng)
    for part, (clouds, labels) in zip(("train", "validation", "test"), parts, strict=True):
        folder = args.out / "public" / part
        folder.mkdir(parents=True)
        np.save(folder / "clouds.npy", clouds)
        if part == "train":
            np.save(folder / "labels.npy", labels.astype(np.int64))
        else:
            (args.out / "private" / part).mkdir(parents=True)
            rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
            (args.out / "private" / part / "labels.csv").write_text("id,label\n" + rows)


if __name__ == "__main__":
    main()
