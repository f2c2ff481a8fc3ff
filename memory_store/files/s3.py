"""How an S3 store is reached: the settings as options, in words that obstore and LanceDB share."""

from __future__ import annotations

import os
from typing import Any

from ..settings import Settings


def s3_options(settings: Settings) -> dict[str, Any]:
    """Options of an S3 client, as obstore and LanceDB both name them; what is empty comes from AWS_* variables."""
    s3 = settings.s3
    options = {
        "aws_endpoint": s3.endpoint,
        "aws_region": s3.region,
        "aws_access_key_id": s3.access_key_id,
        "aws_secret_access_key": s3.secret_access_key.get_secret_value(),
        "allow_http": "true" if s3.endpoint.startswith("http://") else "",
    }
    found = {name: value for name, value in options.items() if value}
    if s3.access_key_id:
        found["aws_session_token"] = s3.session_token.get_secret_value()
    elif "AWS_ACCESS_KEY_ID" in os.environ:
        # Said even where it is empty: LanceDB takes a variable named TOKEN, whoever's it is, for a session token.
        found["aws_session_token"] = os.environ.get("AWS_SESSION_TOKEN", "")
    return found
