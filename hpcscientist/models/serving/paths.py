"""The folder of a model plane: what the plane, its nodes and its clients tell each other.

It lies in the run directory, on a file system that every node sees. Nothing secret stands in it
but the three files of mode 0600.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServingPaths:
    """The paths of one plane."""

    root: Path

    @property
    def key(self) -> Path:
        """What clients of the endpoint must show. Mode 0600."""
        return self.root / "key"

    @property
    def token(self) -> Path:
        """What the processes of its Ray cluster must show each other. Mode 0600."""
        return self.root / "token"

    @property
    def certificate(self) -> Path:
        """What shows the servers of a plane of several nodes to be its own."""
        return self.root / "certificate.pem"

    @property
    def certificate_key(self) -> Path:
        """What only these servers have. Mode 0600."""
        return self.root / "certificate.key"

    @property
    def order(self) -> Path:
        """What is to be served, where and how; written anew at each start."""
        return self.root / "order.json"

    @property
    def endpoint(self) -> Path:
        """Where the models answer; it exists from the moment they do."""
        return self.root / "endpoint.json"

    @property
    def state(self) -> Path:
        """What the plane waits for, one line."""
        return self.root / "state"

    @property
    def request(self) -> Path:
        """What `hpcsci serve` was asked for; a plane beside a campaign has none."""
        return self.root / "request.json"

    @property
    def lock(self) -> Path:
        """Who serves from this folder, where `hpcsci serve` does."""
        return self.root / ".driver"

    def stop(self, nonce: str) -> Path:
        """Its existence asks every node of one start to end; a step cannot be told otherwise."""
        return self.root / f"stop-{nonce}"

    def lease(self, nonce: str) -> Path:
        """What shows every node of one start that whoever ordered it lives."""
        return self.root / f"lease-{nonce}"

    def is_stopped(self, nonce: str) -> bool:
        """Tell whether one start was asked to end.

        The folder is listed: NFS may remember for a minute that a file is not there, but asks
        anew whenever a folder is opened.
        """
        wanted = self.stop(nonce).name
        return any(entry == wanted for entry in os.listdir(self.root))  # noqa: PTH208 (see above)

    @property
    def logs(self) -> Path:
        """Logs, one file a node, and Ray's own of a start that failed."""
        return self.root / "logs"

    def log(self, node: str) -> Path:
        """What a node's processes printed."""
        return self.logs / f"{node}.log"

    def job_log(self, job_id: str) -> Path:
        """What the job printed that serves from this folder."""
        return self.logs / f"job-{job_id}.log"
