"""Candidates that fill the disk, with names and without."""

from __future__ import annotations

from hostile_kit import Hostile, never_made, nothing_left

DISK = (
    Hostile(
        "fills-the-disk",
        """
        for number in range(10**6):
            (OUT / str(number)).write_bytes(b"x" * (1 << 20))
        """,
        "error",
        "wrote more than the 8 MiB",
        check=nothing_left,
    ),
    Hostile(
        "fills-the-scratch",
        """
        for number in range(10**6):
            for place in ("/tmp", "/work", "/var/tmp", "/dev/shm"):
                pathlib.Path(place, str(number)).write_bytes(b"x" * (1 << 20))
        """,
        "error",
        "wrote more than the 8 MiB",
    ),
    Hostile(
        "fills-the-disk-without-names",
        """
        held = []
        for number in range(4000):
            held.append(open(OUT / "x", "wb", buffering=0))
            os.unlink(OUT / "x")
            held[-1].write(b"x" * (1 << 20))
            time.sleep(0.01)
        linger()
        """,
        "error",
        "wrote more than the 8 MiB",
    ),
    Hostile(
        "fills-the-disk-in-a-closed-folder",
        """
        (OUT / "d").mkdir()
        held = [open(OUT / "d" / str(n), "wb", buffering=0) for n in range(64)]
        (OUT / "d").chmod(0)
        for file in held:
            file.write(b"x" * (1 << 20))
        linger()
        """,
        "error",
        "wrote more than the 8 MiB",
        check=nothing_left,
    ),
    Hostile(
        "files-without-end",
        """
        for number in range(10**6):
            os.close(os.open(OUT / str(number), os.O_CREAT | os.O_WRONLY))
        """,
        "error",
        "the number of files allowed",
        {"deadline_s": 300.0},
        nothing_left,
    ),
    Hostile(
        "folders-without-end",
        """
        os.chdir(OUT)
        for _ in range(3000):
            os.mkdir("d" * 20)
            os.chdir("d" * 20)
        for number in range(100):
            open(str(number), "wb").write(b"x" * (1 << 20))
        linger()
        """,
        "error",
        "wrote more than|the number of files allowed",
        {"deadline_s": 300.0},
        nothing_left,
    ),
    Hostile(
        "a-terabyte-of-nothing",
        "with open(OUT / 'predictions.csv', 'wb') as file: file.truncate(1 << 40)",
        "error",
        r"File too large|wrote more than",
    ),
    Hostile(
        "a-terabyte-by-the-end",
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with open(OUT / "predictions.csv", "wb") as file:
            file.seek((1 << 40) - 1)
            file.write(b"x")
        """,
        "error",
        "wrote more than the 8 MiB",
    ),
    Hostile(
        "space-beyond-the-end",
        """
        import ctypes
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        with open(OUT / "predictions.csv", "wb") as file:
            if fallocate(file.fileno(), 1, 0, 1 << 29):
                raise OSError(ctypes.get_errno(), "File too large or not supported")
            linger()
        """,
        "error",
        "wrote more than the 8 MiB|File too large",
        check=never_made("predictions.csv"),
    ),
    Hostile(
        "prints-without-end",
        "for _ in range(2000): os.write(1, b'x' * 65536)\nhonest()",
        "scored",
    ),
)
