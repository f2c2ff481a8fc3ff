"""What the parameters of the flows may be: checked by Pydantic before a run begins, and shown in Prefect's forms."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..memory_store.errors import SettingsError
from ..memory_store.settings import Settings, check_namespace

_PLACE = re.compile(r"s3://[^/]+(/.*)?|(?!\w+://).+", re.DOTALL)


def _namespace(value: str) -> str:
    try:
        return check_namespace(value)
    except SettingsError as error:
        raise ValueError(str(error)) from None


def _place(value: str) -> str:
    if not _PLACE.fullmatch(value):
        raise ValueError("give a folder, or s3://bucket/prefix")
    return value


#: A folder, or s3://bucket/prefix
Place = Annotated[str, AfterValidator(_place)]
#: The name of a tenant
Namespace = Annotated[str, AfterValidator(_namespace)]
#: What reflects or judges
ReflectorName = Literal["auto", "rules", "openai"]
#: Where shards are worked on
EngineName = Literal["auto", "loop", "ray"]
#: Id of a trace
TraceId = Annotated[str, Field(min_length=1, max_length=1000)]
#: A month such as 2026-11; empty: last month
Month = Annotated[str, Field(pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")]


def settings_of(home: str | None, **model: str) -> Settings:
    """The worker's own settings, at another home if one is given, with what is named of the model's settings."""
    settings = Settings.load(home=home or None)
    given = {name: value for name, value in model.items() if value}
    return settings.model_copy(update={"model": settings.model.model_copy(update=given)}) if given else settings
