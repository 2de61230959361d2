"""The one exception tree. Every message is one line and names the mend.

    HpcsciError                  exit 1
    ├── UsageError               exit 2   what the user gave is wrong
    │   ├── ConfigError                   hpcsci.toml, HPCSCI_* variables, command line
    │   ├── RecipeError                   a recipe's files, with file and line
    │   └── ModelSpecError                a --model that means nothing
    ├── ModelError                        a language model could not be used
    │   ├── EndpointError                 unreachable, refused, or out of retries
    │   ├── ReplyError                    no usable reply to this request
    │   └── PlaybookExhausted             no recorded reply is left for this call
    ├── CampaignError
    │   ├── CampaignBusy                  another driver runs this campaign
    │   ├── RunDirectoryError             the run directory cannot be read or written
    │   ├── DiskFull                      no space left; nothing recorded was lost
    │   ├── BaselineFailed                the reference code does not run
    │   └── MachineTrouble                trials were lost again and again; resume tries them anew
    └── Interrupted              exit 130 stopped by a signal or by `hpcsci cancel`

What a trial did is never an exception: see `hpcscientist.records.outcome`.
"""

from __future__ import annotations

from pathlib import Path


class HpcsciError(Exception):
    """Base of all errors this package raises on purpose."""

    exit_code = 1


class UsageError(HpcsciError):
    """What the user gave cannot be used."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration value is unknown or invalid."""


class RecipeError(UsageError):
    """A recipe is unknown or invalid.

    `file` and `line` say where, when that is known; they are part of the message too.
    """

    def __init__(self, message: str, file: Path | None = None, line: int | None = None) -> None:
        self.file, self.line, self.problem = file, line, message
        place = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(place + message)


class ModelSpecError(UsageError):
    """A model specification means nothing."""


class ModelError(HpcsciError):
    """A language model could not be used."""


class EndpointError(ModelError):
    """The endpoint is unreachable, refuses the request, or failed on every retry."""


class ReplyError(ModelError):
    """There is no usable reply to this one request: the idea fails, the campaign goes on.

    The model's replies do not fit the schema, also after repairs; the endpoint refuses the
    request itself (too long for its context, say); or a playbook has a hole.
    """


class PlaybookExhausted(ModelError):
    """The playbook holds no reply for this call."""


class CampaignError(HpcsciError):
    """A campaign cannot go on."""


class CampaignBusy(CampaignError):
    """Another driver runs this campaign."""


class RunDirectoryError(CampaignError):
    """The run directory cannot be read or written."""


class DiskFull(CampaignError):
    """There is no space left; what had been recorded is intact."""


class BaselineFailed(CampaignError):
    """The reference code does not run, so there is nothing to compare ideas with."""


class MachineTrouble(CampaignError):
    """The machine, not the ideas, made trials fail: `hpcsci resume` tries them again."""


class Interrupted(HpcsciError):
    """The campaign was stopped by a signal or by `hpcsci cancel`, cleanly."""

    exit_code = 130
