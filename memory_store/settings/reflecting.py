"""Settings of what is reflected on, and with which model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from .section import Section


class GateOverride(Section):
    """Other values of the gate for some tasks; what is left out stays as it is."""

    #: Triggers that are not looked for
    off: tuple[str, ...] | None = None
    #: Share of traces that succeeded by a detour or after several attempts
    detour_rate: float | None = Field(None, ge=0, le=1)
    #: Share of traces with more than `complex_calls` tool calls
    complex_rate: float | None = Field(None, ge=0, le=1)
    #: A trace with more tool calls than this is complex
    complex_calls: int | None = Field(None, ge=0)


class GateSettings(Section):
    """Which traces are reflected on (R6)."""

    #: Triggers that are not looked for: task_failed, tool_error, unexpected_answer, user_correction, stated_fact, …
    off: tuple[str, ...] = ()
    #: Other values for some tasks, by "NAMESPACE", "*/TASK_TYPE" or "NAMESPACE/TASK_TYPE"; the narrower one wins
    overrides: dict[str, GateOverride] = Field(default_factory=dict)

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


class ModelSettings(Section):
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
