from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcscientist.files.hashing import hash_bytes, hash_tree
from hpcscientist.recipe import archive
from hpcscientist.recipe.archive import Packed, pack, read
from hpcscientist.recipe.create import create

Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    made = create("sorting", tmp_path)
    (made / "helpers").mkdir()
    (made / "helpers" / "more.py").write_text("A = 1\n")
    (made / "playbook.jsonl").write_text("{}\n")
    (made / ".secret.py").write_text("KEY = 1\n")
    return made


def packed_of(folder: Path) -> bytes:
    found = pack(folder)
    assert found is not None
    return found[0]


def opened(data: bytes) -> Packed:
    found = read(data)
    assert isinstance(found, Packed), found
    return found


def test_the_code_of_a_recipe_comes_out_as_it_went_in(recipe: Path, tmp_path: Path) -> None:
    found = opened(packed_of(recipe))
    assert found.recipe_hash == hash_tree(recipe)
    assert found.lacking == []
    found.write(tmp_path / "out")
    for name in ("recipe.toml", "prepare.py", "score.py", "reference/experiment.py"):
        assert (tmp_path / "out" / name).read_bytes() == (recipe / name).read_bytes()
    assert (tmp_path / "out" / "helpers" / "more.py").is_file()
    for name in ("playbook.jsonl", ".secret.py", "seed_ideas.json"):
        assert not (tmp_path / "out" / name).exists(), name
    assert hash_tree(tmp_path / "out" / "reference") == hash_tree(recipe / "reference")


def test_the_same_content_is_the_same_bytes(recipe: Path, tmp_path: Path) -> None:
    before = packed_of(recipe)
    other = tmp_path / "elsewhere" / "another-name"
    for path in sorted((p for p in recipe.rglob("*") if p.is_file()), reverse=True):
        copy = other / path.relative_to(recipe)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o755)
        os.utime(copy, (1, 1))
    assert packed_of(other) == before
    (other / "score.py").write_text("other\n")
    assert packed_of(other) != before


def test_what_may_be_data_is_left_out_and_named(recipe: Path) -> None:
    (recipe / "raw").mkdir()
    (recipe / "raw" / "labels.csv").write_text("1,2\n")
    (recipe / "README.md").write_text("read me\n")
    data = packed_of(recipe)
    assert b"1,2\n" not in data
    found = opened(data)
    assert found.lacking == ["raw/labels.csv"]
    assert found.recipe_hash == hash_tree(recipe)


def test_a_large_recipe_or_an_odd_name_makes_no_archive(recipe: Path) -> None:
    large = recipe / "reference" / "large.txt"
    large.write_bytes(b"a" * archive.LIMIT)
    assert pack(recipe) is None
    large.unlink()
    assert pack(recipe) is not None
    (recipe / "two\nlines.txt").write_text("")
    assert pack(recipe) is None


def test_links_are_not_followed(recipe: Path, tmp_path: Path) -> None:
    before = packed_of(recipe)
    (tmp_path / "outside.py").write_text("SECRET = 1\n")
    (recipe / "link.py").symlink_to(tmp_path / "outside.py")
    assert packed_of(recipe) == before


def test_long_and_foreign_names_are_kept(recipe: Path, tmp_path: Path) -> None:
    name = f"reference/{'long' * 40}/größe.py"
    (recipe / name).parent.mkdir()
    (recipe / name).write_text("B = 2\n")
    opened(packed_of(recipe)).write(tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == "B = 2\n"


def members_of(data: bytes) -> list[Member]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        found = []
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            found.append((member, content.read()))
        return found


def written(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def renamed(members: list[Member], to: str) -> list[Member]:
    """Have score.py lie elsewhere, by its own name and in SHA256SUMS."""
    for member, _ in members:
        if member.name == "recipe/score.py":
            member.name = f"recipe/{to}"
    (first, sums), *others = members
    return [(first, sums.replace(b"recipe/score.py", f"recipe/{to}".encode())), *others]


def outside(members: list[Member]) -> list[Member]:
    return renamed(members, "../../score.py")


def absolute(members: list[Member]) -> list[Member]:
    return renamed(members, "/etc/score.py")


def through_a_file(members: list[Member]) -> list[Member]:
    return renamed(members, "prepare.py/score.py")


def not_below_recipe(members: list[Member]) -> list[Member]:
    members[-1][0].name = "elsewhere.py"
    return members


def linked(members: list[Member], kind: bytes = tarfile.SYMTYPE) -> list[Member]:
    link = tarfile.TarInfo("recipe/link.py")
    link.type, link.linkname = kind, "/etc/passwd"
    return [*members, (link, b"")]


def hard_linked(members: list[Member]) -> list[Member]:
    return linked(members, tarfile.LNKTYPE)


def device(members: list[Member]) -> list[Member]:
    return linked(members, tarfile.CHRTYPE)


def fifo(members: list[Member]) -> list[Member]:
    return linked(members, tarfile.FIFOTYPE)


def folder(members: list[Member]) -> list[Member]:
    return linked(members, tarfile.DIRTYPE)


def more(members: list[Member]) -> list[Member]:
    return [*members, (tarfile.TarInfo("recipe/more.py"), b"import os\n")]


def twice(members: list[Member]) -> list[Member]:
    return [*members, (tarfile.TarInfo("recipe/score.py"), b"import os\n")]


def changed(members: list[Member]) -> list[Member]:
    return [
        (m, b"import os\n" + content if m.name == "recipe/score.py" else content)
        for m, content in members
    ]


def executable(members: list[Member]) -> list[Member]:
    members[-1][0].mode = 0o4755
    return members


def other_order(members: list[Member]) -> list[Member]:
    return [members[0], *reversed(members[1:])]


def no_sums(members: list[Member]) -> list[Member]:
    return members[1:]


def bad_sums(members: list[Member]) -> list[Member]:
    return [(members[0][0], members[0][1] + b"nonsense\n"), *members[1:]]


def sparse(members: list[Member]) -> list[Member]:
    """A file that says it has a terabyte, of holes."""
    large = tarfile.TarInfo("recipe/large.py")
    large.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(2**40),
        "GNU.sparse.map": f"0,0,{2**40},0",
    }
    return [*members, (large, b"")]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (outside, "SHA256SUMS"),
        (absolute, "SHA256SUMS"),
        (through_a_file, "SHA256SUMS"),
        (not_below_recipe, "SHA256SUMS"),
        (linked, "plain file"),
        (hard_linked, "plain file"),
        (device, "plain file"),
        (fifo, "plain file"),
        (folder, "plain file"),
        (sparse, "plain file"),
        (more, "SHA256SUMS"),
        (twice, "than once"),
        (changed, "another recipe/score.py"),
        (executable, "other than"),
        (other_order, "other than"),
        (no_sums, "SHA256SUMS"),
        (bad_sums, "SHA256SUMS"),
    ],
)
def test_an_archive_that_was_made_otherwise_is_refused(
    recipe: Path, spoil: Callable[[list[Member]], list[Member]], told: str
) -> None:
    data = packed_of(recipe)
    assert written(members_of(data)) == data, "these tests write archives as they are written"
    found = read(written(spoil(members_of(data))))
    assert isinstance(found, str)
    assert told in found


def test_what_follows_the_archive_is_refused(recipe: Path) -> None:
    data = packed_of(recipe)
    assert "other than" in str(read(data + b"more"))
    assert "at most" in str(read(data + bytes(archive.LIMIT)))


def test_damage_never_raises_and_never_passes(recipe: Path) -> None:
    data, draw = packed_of(recipe), random.Random(0)
    for content in (b"", b"nonsense", data[:700], data[:-600], b"\0" * 4096):
        assert isinstance(read(content), str)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        assert bytes(damaged) == data or isinstance(read(bytes(damaged)), str)


def test_headers_upon_headers_are_no_archive() -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    block = header.tobuf(tarfile.GNU_FORMAT) + bytes(512)
    assert read(block * 4000) == "is no archive, or damaged"


def digits(length: int) -> bytes:
    """A header of digits alone, in which a search for records begins anew at each of them."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, length
    return header.tobuf(tarfile.USTAR_FORMAT) + b"1" * length


def two_names() -> bytes:
    record = b"24 path=recipe/other.py\n"
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    return (header.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0")) * 2


def negative() -> bytes:
    header = bytearray(tarfile.TarInfo("recipe/score.py").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 12
    return bytes(header)


def odd() -> bytes:
    header = bytearray(tarfile.TarInfo("recipe/score.py").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b" -0000000001"
    return bytes(header)


def far() -> bytes:
    header = tarfile.TarInfo("recipe/score.py")
    header.size = 2**32
    return header.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (digits(archive.LIMIT - 2048), "plain file"),
        (two_names(), "damaged"),
        (negative(), "damaged"),
        (odd(), "damaged"),
        (far(), "damaged"),
        (
            b"".join(tarfile.TarInfo(f"recipe/{n}.py").tobuf() for n in range(16000)),
            "4096 files",
        ),
    ],
    ids=["digits", "two-names", "negative", "odd", "far", "many"],
)
def test_headers_that_cost_a_reader_much_are_refused(data: bytes, told: str) -> None:
    assert told in str(read(data + bytes(1024)))


def test_names_are_as_deep_and_as_long_as_a_disk_takes(recipe: Path) -> None:
    content = b"import os\n"
    hashed = hash_bytes(content)
    deep = "a/" * 4000 + "b.py"
    for sums, names in (
        (f"{hashed}  recipe/{deep}\n", []),
        ("".join(f"{hashed}  recipe/{'a/' * 200}{n}\n" for n in range(10000)), []),
        (f"{hashed}  recipe/{'n' * 600}\n", [f"recipe/{'n' * 600}"]),
    ):
        members = [("SHA256SUMS", sums.encode()), *((name, content) for name in names)]
        assert isinstance(read(archive.encode(members)), str)
    for name in (f"{'n/' * 40}a.py", f"{'n' * 200}/{'n' * 200}/{'n' * 200}.py"):
        path = recipe / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        assert pack(recipe) is None, "no archive is written that would not be read"
        path.unlink()
    assert pack(recipe) is not None


def test_what_goes_through_a_file_is_found_between_others(recipe: Path) -> None:
    members = members_of(packed_of(recipe))
    (first, sums), *others = members
    for name in ("helpers", "score.py/a"):
        more = f"{hash_bytes(b'')}  recipe/{name}\n".encode()
        assert "SHA256SUMS that names" in str(read(written([(first, sums + more), *others])))
    more = f"{hash_bytes(b'')}  recipe/helpers.py\n{hash_bytes(b'')}  recipe/helpers-x/a\n"
    assert "other than" in str(read(written([(first, sums + more.encode()), *others]))), "the order"


def test_many_files_make_no_archive(recipe: Path) -> None:
    before = pack(recipe)
    for number in range(archive.MOST_FILES):
        (recipe / "helpers" / f"of_{number}.py").touch()
    assert pack(recipe) is None
    assert before is not None


def test_the_layout_is_the_same_wherever_it_is_written(tmp_path: Path) -> None:
    """By its hash: no version of Python writes another one, and earlier archives stay readable."""
    names = ("SHA256SUMS", "recipe/a.py", f"recipe/{'long' * 40}.py", "recipe/größe.py")
    data = archive.encode((name, name.encode() * 40) for name in names)
    assert hash_bytes(data) == "05d1108ffc91c33b38a0f5e6317aad5ac1fcab979e2800a739286d5e1055af9c"
    assert len(data) % 10240 == 0
    assert archive.decode(data) == {name: name.encode() * 40 for name in names}
    (tmp_path / "made.tar").write_bytes(data)
    listed = subprocess.run(
        ["tar", "tf", tmp_path / "made.tar"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert listed.stdout.splitlines() == list(names)
