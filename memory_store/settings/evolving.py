"""Settings of what outcomes say of memories, and of how they are forgotten."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .section import Section


class CreditSettings(Section):
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


class RetentionOverride(Section):
    """Other values for some memories; what is left out stays as it is."""

    #: What becomes of a memory that has decayed, expired or was never used
    action: Forgetting | None = None
    #: Strength below which it has decayed
    floor: float | None = Field(None, ge=0, le=1)
    #: Days after which it has expired; 0: never
    ttl_days: int | None = Field(None, ge=0)
    #: Days after which it counts as never used; 0: use does not matter
    unused_days: int | None = Field(None, ge=0)


class RetentionPolicy(Section):
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


class RetentionSettings(Section):
    """What is forgotten, when and how (R15 to R18)."""

    #: Other policies, by "NAMESPACE", "*/KIND" or "NAMESPACE/KIND"; the narrower one wins
    overrides: dict[str, RetentionOverride] = Field(default_factory=dict)
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
