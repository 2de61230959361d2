"""The one exception tree. Every message is one line and names the mend.

    HpcsciError                  exit 1
    ├── UsageError               exit 2   what the user gave is wrong
    │   ├── ConfigError                   hpcsci.toml, HPCSCI_* variables, command line
    │   │   └── SiteError                 a site profile asks Slurm for what it must not
    │   ├── RecipeError                   a recipe's files, with file and line
    │   ├── ModelSpecError                a --model that means nothing
    │   ├── LibraryError                  a library of papers that cannot be made or read
    │   └── NoRunDirectory                a folder given for a run directory that is none
    ├── ModelError                        a language model could not be used
    │   ├── EndpointError                 unreachable, refused, or out of retries
    │   ├── ReplyError                    no usable reply to this request
    │   │   └── ContextOverflow           it is longer than the model's context
    │   ├── NoEmbedder                    no folder of an embedding model (a ConfigError too)
    │   └── PlaybookExhausted             no recorded reply is left for this call
    ├── ServingError                      open weights could not be served here
    │   ├── WeightsError                  weights, tokenizer or template are not whole (see also
    │   │                                 NoWeights, a UsageError too: there is no such folder)
    │   └── PlaneLost                     the model plane ended while it was in use
    ├── OutOfReach                        a service of the literature cannot be asked now
    ├── CampaignError
    │   ├── CampaignBusy                  another driver runs this campaign
    │   ├── RunDirectoryError             the run directory cannot be read or written (see also
    │   │                                 NoRunDirectory, which is both)
    │   ├── DiskFull                      no space left; nothing recorded was lost
    │   ├── BaselineFailed                the reference code does not run
    │   ├── BaselineNoisy                 it runs, and what it gives differs too much
    │   ├── SplitGuarded                  a trial on the test split that nobody was let to
    │   └── MachineTrouble                trials were lost again and again; resume tries them anew
    ├── SchedulerError                    Slurm could not be used
    │   ├── SchedulerSilent               it does not answer; it may later
    │   └── SchedulerRefused              it answered no
    └── Interrupted              exit 130 stopped by a signal or by `hpcsci cancel`

What a trial did is never an exception: see `hpcscientist.records.trial`.
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


class SiteError(ConfigError):
    """A site profile asks Slurm for something that cannot be; `code` says what, in one word."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


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


class LibraryError(UsageError):
    """A library of papers and code cannot be made from what was given, or cannot be read."""


class ModelError(HpcsciError):
    """A language model could not be used."""


class EndpointError(ModelError):
    """The endpoint is unreachable, refuses the request, or failed on every retry."""


class ReplyError(ModelError):
    """There is no usable reply to this one request: the idea fails, the campaign goes on.

    The model's replies do not fit the schema, also after repairs; the endpoint refuses the
    request itself (too long for its context, say); or a playbook has a hole.
    """


class ContextOverflow(ReplyError):
    """A request is longer than the model's context. In tokens; 0 where the server names none."""

    def __init__(self, message: str, context: int = 0, prompt_tokens: int = 0) -> None:
        self.context, self.prompt_tokens = context, prompt_tokens
        super().__init__(message)


class PlaybookExhausted(ModelError):
    """The playbook holds no reply for this call."""


class ServingError(HpcsciError):
    """Open weights could not be served: they do not fit, or the engine does not start."""


class WeightsError(ServingError):
    """A model's folder lacks something, or holds what cannot be served; all of it is named.

    `problems` are the same, one by one, where there are several.
    """

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        self.problems = problems or (message,)
        super().__init__(message)


class NoWeights(WeightsError, UsageError):
    """What was given for a model's folder is none."""

    exit_code = 2


class NoEmbedder(ModelError, ConfigError):
    """What was given for the folder of an embedding model is none."""

    exit_code = 2


class PlaneLost(ServingError):
    """The model plane ended while it was in use: a machine fault, and no idea's."""


class OutOfReach(HpcsciError):
    """A service of the literature cannot be asked now; `network` where nothing answers at all."""

    def __init__(self, message: str, network: bool = False) -> None:
        self.network = network
        super().__init__(message)


class CampaignError(HpcsciError):
    """A campaign cannot go on."""


class CampaignBusy(CampaignError):
    """Another driver runs this campaign."""


class RunDirectoryError(CampaignError):
    """The run directory cannot be read or written."""


class IdeaDamaged(RunDirectoryError):
    """What lies in an idea's folder is not what the journal says was put there."""


class NoRunDirectory(UsageError, RunDirectoryError):
    """What was given for a run directory is none."""

    def __init__(self, folder: Path, lacks: str) -> None:
        super().__init__(
            f"{folder}: is no run directory (no {lacks}); "
            "give the folder that `hpcsci launch` named"
        )


class DiskFull(CampaignError):
    """There is no space left; what had been recorded is intact."""


class BaselineFailed(CampaignError):
    """The reference code does not run, so there is nothing to compare ideas with."""


class SplitGuarded(CampaignError):
    """A trial would see the test split, and the journal does not say that its idea is let to it."""


class BaselineNoisy(CampaignError):
    """The reference differs too much, by seed or with time, for the effects that are looked for."""


class MachineTrouble(CampaignError):
    """The machine, not the ideas, made trials fail: `hpcsci resume` tries them again."""


class SchedulerError(HpcsciError):
    """Slurm could not be used."""


class SchedulerSilent(SchedulerError):
    """Slurm does not answer. It may have carried the request out all the same."""


class SchedulerRefused(SchedulerError):
    """Slurm answered no; the message is its own words."""


class Interrupted(HpcsciError):
    """The campaign was stopped by a signal or by `hpcsci cancel`, cleanly."""

    exit_code = 130
