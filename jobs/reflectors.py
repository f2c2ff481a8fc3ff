"""Which reflector a run uses."""

from __future__ import annotations

from typing import Literal

from ..memory_store.errors import SettingsError
from ..memory_store.settings import Settings
from .candidates import Reflector

Name = Literal["auto", "rules", "openai"]


def reflector_of(settings: Settings, name: Name = "auto") -> Reflector:
    """The reflector of that name; "auto" is the settings' choice: openai once an endpoint is set, else rules.

    Raises `SettingsError` when the model is asked for and no endpoint is set.
    """
    chosen = settings.reflector if name == "auto" else name
    if chosen == "auto":
        chosen = "openai" if settings.model.base_url else "rules"
    if chosen == "rules":
        from .rules_reflector import RulesReflector

        return RulesReflector()
    if not settings.model.base_url:
        raise SettingsError(
            "the openai reflector needs an endpoint: set HINDLAKE_MODEL_BASE_URL (and HINDLAKE_MODEL_NAME, "
            "HINDLAKE_MODEL_API_KEY), or use --reflector rules"
        )
    from .model_reflector import ModelReflector

    return ModelReflector(settings)
