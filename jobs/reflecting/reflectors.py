"""Which reflector a run uses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from ...memory_store.errors import SettingsError
from ...memory_store.settings import Settings
from ..deciding.meet import JudgeOf, no_judge
from ..models.budget import Budget
from .candidates import Reflector

if TYPE_CHECKING:
    from ..mining.model import PatternJudge

Name = Literal["auto", "rules", "openai"]


def reflector_of(settings: Settings, name: Name = "auto") -> Reflector:
    """The reflector of that name; "auto" is the settings' choice: openai once an endpoint is set, else rules.

    Raises `SettingsError` when the model is asked for and no endpoint is set.
    """
    if not asks_model(settings, name):
        from .rules_reflector import RulesReflector

        return RulesReflector()
    from .model_reflector import ModelReflector

    return ModelReflector(settings)


def judge_of(settings: Settings, name: Name = "auto") -> PatternJudge | None:
    """What judges and words patterns, by the same choice; None: the rules do. Raises as `reflector_of` does."""
    if not asks_model(settings, name):
        return None
    from ..mining.model import PatternJudge

    return PatternJudge(settings)


def asks_model(settings: Settings, name: Name = "auto") -> bool:
    """Whether the reflector of that name is a model. Raises `SettingsError` when it is and no endpoint is set."""
    chosen = settings.reflector if name == "auto" else name
    if chosen == "auto":
        chosen = "openai" if settings.model.base_url else "rules"
    if chosen == "openai" and not settings.model.base_url:
        raise SettingsError(
            "the openai reflector needs an endpoint: set HINDLAKE_MODEL_BASE_URL (and HINDLAKE_MODEL_NAME, "
            "HINDLAKE_MODEL_API_KEY), or use --reflector rules"
        )
    return chosen == "openai"


def pair_judges(settings: Settings, name: Name = "auto", *, ask: bool = True, budget: Budget | None = None) -> JudgeOf:
    """What judges pairs of memories in each namespace, by the same choice: one budget for all of them, which can be
    looked at afterwards if it is given.

    Without `ask` no model is called: pairs that it judged before are judged the same. Raises as `reflector_of` does.
    """
    if not asks_model(settings, name):
        return no_judge
    from ..comparing.pair_judge import ModelJudge
    from ..models.kept_door import KeptDoor
    from ..models.model import ModelDoor
    from ..models.replies import LakeReplies

    kind = ModelDoor if ask else KeptDoor
    return partial(ModelJudge, kind(settings.model, LakeReplies(settings), budget or Budget.of(settings.model)))
