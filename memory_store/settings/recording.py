"""Settings of where things lie and how the recorder keeps events."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from .section import Section


class S3Settings(Section):
    """How to reach an S3 store; what is left empty comes from the usual AWS_* variables."""

    #: Address of a server other than Amazon's, such as http://127.0.0.1:8333
    endpoint: str = ""
    #: Region to sign requests for
    region: str = "us-east-1"
    #: Access key
    access_key_id: str = ""
    #: Secret key
    secret_access_key: SecretStr = SecretStr("")
    #: Session token, where the keys are temporary ones
    session_token: SecretStr = SecretStr("")


class RecorderSettings(Section):
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
