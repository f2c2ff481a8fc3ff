"""What every section of the settings is: frozen, and strict about names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of the sections."""

    model_config = ConfigDict(frozen=True, extra="forbid")
