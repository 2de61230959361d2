"""Candidates that will not end, and candidates that fill memory."""

from __future__ import annotations

from hostile_kit import Hostile, kept

PROCESSES = (
    Hostile(
        "forks-without-end",
        "while True: unnoticed(os.fork)",
        "error",
        "more than the 256 processes and threads",
        {"processes": 256},
    ),
    Hostile(
        "forks-sessions-without-end",
        "while True:\n    if unnoticed(os.fork) == 0: os.setsid()",
        "error",
        "more than the 256 processes and threads",
        {"processes": 256},
    ),
    Hostile(
        "starts-threads-without-end",
        # Thread.start would wait for one that could not begin.
        "import _thread\nwhile True: _thread.start_new_thread(time.sleep, (600,))",
        "error",
        # Told by the watcher, or read from the kernel before the watcher has counted.
        r"more than the 256 processes and threads"
        r"|can't start new thread \(256 processes and threads are allowed\)",
        {"processes": 256},
    ),
    Hostile(
        "daemon-after-its-end",
        "honest(); daemon(linger); await_file(OUT / 'daemon')",
        "scored",
    ),
    Hostile(
        "daemon-past-its-deadline",
        "daemon(linger); await_file(OUT / 'daemon'); linger('main')",
        "timeout",
        "past its deadline of 5 s",
        {"deadline_s": 5.0},
        kept("daemon", "main"),
    ),
    Hostile(
        "deafens-itself",
        """
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.close(1), os.close(2)
        while True:
            unnoticed(os.kill, -1, signal.SIGSTOP)
        """,
        "timeout",
        "past its deadline of 5 s",
        {"deadline_s": 5.0},
    ),
    Hostile(
        "edits-its-deadline",
        """
        import resource
        for name in ("spec.json", "worker.json"):
            note(name, '{"limits": {"deadline_s": 1e9}, "run": 1}')
            for place in (TRIAL, pathlib.Path("/"), OTHER):
                unnoticed((place / name).write_text, '{"limits": {"deadline_s": 1e9}}')
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) != os.getpid():
                unnoticed(os.kill, int(pid), signal.SIGSTOP)
        signal.alarm(0)
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            try:
                resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
            except (OSError, ValueError):
                continue
        linger()
        """,
        "timeout",
        "past its deadline of 5 s",
        {"deadline_s": 5.0},
    ),
    Hostile(
        "kills-all-it-can",
        "unnoticed(os.kill, 1, 9); unnoticed(os.kill, -1, 9); unnoticed(os.kill, os.getppid(), 9)\n"
        "raise RuntimeError('still here')",
        "error",
        "still here",
    ),
    Hostile(
        "feigns-a-machine-failure",
        "print('FATAL:   container creation failed: no loop devices', flush=True); os._exit(255)",
        "error",
        "FATAL: +container creation failed",
    ),
    Hostile(
        "owns-a-terminal",
        "raise RuntimeError('\\x1b]0;owned\\x07\\x1b[2J\\x1b[31m' + 'mine')",
        "error",
        "RuntimeError: .*mine",
    ),
)

MEMORY = (
    Hostile(
        "fills-memory",
        "held = []\nwhile True: held.append(b'x' * (8 << 20))",
        "out_of_memory",
        "more than the 256 MiB of memory",
        {"memory_mb": 256},
    ),
    Hostile(
        "fills-memory-by-many",
        """
        for _ in range(8):
            if os.fork() == 0:
                held = b"x" * (64 << 20)
                linger(str(os.getpid()))
        linger()
        """,
        "out_of_memory",
        "more than the 256 MiB of memory",
        {"memory_mb": 256},
    ),
    Hostile(
        "fills-memory-that-no-process-shows",
        """
        held = [os.memfd_create("x") for _ in range(600)]
        for descriptor in held:
            os.write(descriptor, b"x" * (1 << 20))
        linger()
        """,
        "out_of_memory",
        "more than the 256 MiB of memory",
        {"memory_mb": 256},
    ),
    Hostile(
        "namespace-of-its-own",
        """
        import ctypes
        if ctypes.CDLL(None).unshare(0x10000000 | 0x00020000):
            raise RuntimeError("no user namespace of its own")
        linger()
        """,
        "error",
        "(made a|no) user namespace of its own",
    ),
)
