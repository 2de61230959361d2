"""Candidates that leave traps behind, and predictions that are none."""

from __future__ import annotations

from hostile_kit import Hostile, kept, never_made

LEFTOVERS = (
    Hostile(
        "leaves-fifos-links-and-modes",
        """
        import socket
        os.chdir(OUT)
        os.mkfifo("fifo")
        pathlib.Path("link").symlink_to("/etc/passwd")
        pathlib.Path("loop").symlink_to("loop")
        pathlib.Path("file").write_text("")
        os.link("file", "hard")
        socket.socket(socket.AF_UNIX).bind("socket")
        pathlib.Path("program").write_text("")
        os.chmod("program", 0o6777)
        os.makedirs("closed/deep")
        os.mkfifo("closed/deep/fifo")
        os.chmod("closed", 0)
        honest()
        """,
        "scored",
        check=kept("predictions.csv", "program", "closed"),
    ),
    Hostile(
        "makes-a-device",
        "os.mknod(OUT / 'disk', 0o060666, os.makedev(8, 0))",
        "error",
        "PermissionError",
    ),
    Hostile("predictions-fifo", "os.mkfifo(OUT / 'predictions.csv')", "tampering", "special file"),
    Hostile(
        "predictions-hard-link",
        "honest(); os.link(OUT / 'predictions.csv', OUT / 'x')",
        "tampering",
        "hard link",
    ),
    Hostile("predictions-folder", "os.mkdir(OUT / 'predictions.csv')", "tampering", "folder"),
    Hostile(
        "predictions-huge",
        "predict('id,label\\n' + '0,1\\n' * (1 << 20))",
        "bad_predictions",
        "larger than 65536 bytes",
    ),
    Hostile(
        "predictions-nan",
        "predict('id,label\\n' + ''.join(f'{n},nan\\n' for n in range(10)))",
        "bad_predictions",
        "line 2: expected",
    ),
    Hostile(
        "predictions-duplicated",
        "predict('id,label\\n' + '0,3\\n' * 10)",
        "bad_predictions",
        "id 0 appears twice",
    ),
    Hostile(
        "predictions-too-few",
        "predict('id,label\\n0,3\\n1,1\\n')",
        "bad_predictions",
        "8 ids are missing",
    ),
    Hostile(
        "predictions-pickled",
        """
        import pickle
        class Evil:
            def __reduce__(self):
                return (open, (str(OUT / "run by the scorer"), "w"))
        (OUT / "predictions.csv").write_bytes(pickle.dumps(Evil()))
        """,
        "bad_predictions",
        "not ASCII|line 1",
        check=never_made("run by the scorer"),
    ),
    Hostile("predictions-none", "pass", "bad_predictions", "wrote no predictions"),
)
