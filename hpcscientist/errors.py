"""The exception tree. Every message is one line and names the fix.

    HpcsciError                  exit 1
    ├── UsageError               exit 2   the user's input is wrong
    │   ├── ConfigError                   hpcsci.toml, HPCSCI_* variables, command line
    │   │   └── SiteError                 a site profile asks Slurm for something it must not
    │   ├── RecipeError                   a recipe's files, with file and line
    │   ├── ModelSpecError                an invalid --model
    │   ├── LibraryError                  a library of papers cannot be made or read
    │   └── NoRunDirectory                the given folder is no run directory
    ├── ModelError                        a language model could not be used
    │   ├── EndpointError                 unreachable, refused, or out of retries
    │   ├── ReplyError                    no usable reply to this request
    │   │   └── ContextOverflow           the request is longer than the model's context
    │   ├── NoEmbedder                    no folder of an embedding model (a ConfigError too)
    │   └── PlaybookExhausted             no recorded reply is left for this call
    ├── ServingError                      open weights could not be served here
    │   ├── WeightsError                  weights, tokenizer or template are incomplete (see also
    │   │                                 NoWeights, a UsageError too: there is no such folder)
    │   └── PlaneLost                     the model server ended while it was in use
    ├── OutOfReach                        a literature service does not answer now
    ├── CampaignError
    │   ├── CampaignBusy                  another driver runs this campaign
    │   ├── RunDirectoryError             the run directory cannot be read or written (see also
    │   │                                 NoRunDirectory, which is both)
    │   │   └── IdeaDamaged               an idea's files differ from what the journal recorded
    │   ├── DiskFull                      no space left; nothing recorded was lost
    │   ├── BaselineFailed                the reference code does not run
    │   ├── BaselineNoisy                 the baseline varies too much, by seed or over time
    │   ├── SplitGuarded                  the journal does not allow a trial on the test split
    │   └── MachineTrouble                repeated machine failures; resume tries again
    ├── SchedulerError                    Slurm could not be used
    │   ├── SchedulerSilent               Slurm does not answer; it may later
    │   └── SchedulerRefused              Slurm refused the request
    └── Interrupted              exit 130 stopped by a signal or by `hpcsci cancel`

A failed trial is never an exception, but an outcome: see `hpcscientist.records.trial`.
"""

from __future__ import annotations

from pathlib import Path


class HpcsciError(Exception):
    """Base class of all errors that this package raises on purpose."""

    exit_code = 1


class UsageError(HpcsciError):
    """The user's input cannot be used."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration value is unknown or invalid."""


class SiteError(ConfigError):
    """A site profile asks Slurm for something impossible; `code` names it in one word."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class RecipeError(UsageError):
    """A recipe is unknown or invalid.

    `file` and `line` say where, if known; they are part of the message too.
    """

    def __init__(self, message: str, file: Path | None = None, line: int | None = None) -> None:
        self.file, self.line, self.problem = file, line, message
        place = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(place + message)


class ModelSpecError(UsageError):
    """A model specification is invalid."""


class LibraryError(UsageError):
    """A library of papers and code cannot be built from the given input, or cannot be read."""


class ModelError(HpcsciError):
    """A language model could not be used."""


class EndpointError(ModelError):
    """The endpoint is unreachable, refuses the request, or failed on every retry."""


class ReplyError(ModelError):
    """There is no usable reply to this one request: the idea fails, the campaign goes on.

    The model's replies do not fit the schema, even after repairs; or the endpoint refuses the
    request itself (for example, it is too long); or a playbook lacks this reply.
    """


class ContextOverflow(ReplyError):
    """A request is longer than the model's context. Sizes are in tokens, 0 if unknown."""

    def __init__(self, message: str, context: int = 0, prompt_tokens: int = 0) -> None:
        self.context, self.prompt_tokens = context, prompt_tokens
        super().__init__(message)


class PlaybookExhausted(ModelError):
    """The playbook holds no reply for this call."""


class ServingError(HpcsciError):
    """Open weights could not be served: they do not fit, or the engine does not start."""


class WeightsError(ServingError):
    """A model's folder is incomplete, or holds files that cannot be served. The message names all
    problems; `problems` lists them one by one.
    """

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        self.problems = problems or (message,)
        super().__init__(message)


class NoWeights(WeightsError, UsageError):
    """The given path is no folder of a model."""

    exit_code = 2


class NoEmbedder(ModelError, ConfigError):
    """The given path is no folder of an embedding model."""

    exit_code = 2


class PlaneLost(ServingError):
    """The model server ended while it was in use: a machine failure, not an idea's."""


class OutOfReach(HpcsciError):
    """A literature service cannot be asked now; `network`: nothing answers at all."""

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
    """The files in an idea's folder differ from what the journal recorded."""


class NoRunDirectory(UsageError, RunDirectoryError):
    """The given path is no run directory."""

    def __init__(self, folder: Path, lacks: str) -> None:
        super().__init__(
            f"{folder}: is no run directory (no {lacks}); "
            "give the folder that `hpcsci launch` named"
        )


class DiskFull(CampaignError):
    """There is no space left; everything that was recorded is intact."""


class BaselineFailed(CampaignError):
    """The reference code does not run, so there is nothing to compare ideas with."""


class SplitGuarded(CampaignError):
    """A trial would see the test split, but the journal does not record that its idea may."""


class BaselineNoisy(CampaignError):
    """The baseline varies too much, by seed or over time, to detect the effects looked for."""


class MachineTrouble(CampaignError):
    """The machine, not the ideas, made trials fail. `hpcsci resume` tries them again."""


class SchedulerError(HpcsciError):
    """Slurm could not be used."""


class SchedulerSilent(SchedulerError):
    """Slurm does not answer. It may have carried out the request anyway."""


class SchedulerRefused(SchedulerError):
    """Slurm refused a request; the message is Slurm's own."""


class Interrupted(HpcsciError):
    """A signal or `hpcsci cancel` stopped the campaign cleanly."""

    exit_code = 130
