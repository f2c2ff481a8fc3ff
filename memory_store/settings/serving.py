"""Settings of the MCP server: who may ask it, where it listens, and how much it takes."""

from __future__ import annotations

from pydantic import Field, field_validator

from ..errors import SettingsError
from .namespace import check_namespace
from .section import Section


class McpToken(Section):
    """What a bearer token of the HTTP server opens. Of the token itself only its hash is kept."""

    #: SHA-256 of the token, in hexadecimal; `hindlake mcp --new-token NAME` makes both
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    #: The namespace that is read and written with it
    namespace: str
    #: The one subject whose memories it opens, beside what is shared; empty: calls name the subject
    subject: str = ""
    #: Whether it opens only tools that read
    read_only: bool = False

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        try:
            return check_namespace(value)
        except SettingsError as error:
            raise ValueError(str(error)) from None


class McpSettings(Section):
    """How `hindlake mcp` serves."""

    #: Address that the HTTP server listens on
    host: str = "127.0.0.1"
    #: Its port
    port: int = Field(8848, ge=0, le=65535)
    #: Who may ask over HTTP, by a name for the log
    tokens: dict[str, McpToken] = Field(default_factory=dict)
    #: Names that a request's Host header may have, beside those of the loopback: "memory.example.com"
    hosts: tuple[str, ...] = ()
    #: Origins of pages in browsers that may ask: "https://app.example.com"
    origins: tuple[str, ...] = ()
    #: The one subject that is served over standard input and output; empty: calls name the subject
    subject: str = ""
    #: Whether there are tools that write
    writes: bool = True
    #: Most characters of one argument of a tool
    argument_characters: int = Field(20_000, ge=100)
    #: Calls that a caller may make in a minute
    calls_per_minute: int = Field(600, ge=1)
    #: Calls that write, of those
    writes_per_minute: int = Field(60, ge=1)
    #: Calls that are worked on at once
    threads: int = Field(8, ge=1)
