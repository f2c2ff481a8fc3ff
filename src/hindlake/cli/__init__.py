"""The command line. Exit codes: 0 done, 1 failed, 2 wrong usage.

Commands are loaded when one is asked for; `hindlake mcp` and `hindlake hook` load none but themselves, since another
program waits for their answer.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..memory_store.errors import HindlakeError, SettingsError, UsageError

if TYPE_CHECKING:
    from .application import app as app


#: Options of `hindlake mcp` with which no client waits at standard input.
_NOT_SPOKEN_TO = ("--help", "--http", "--new-token")


def __getattr__(name: str) -> object:
    """Load the application when it is first used."""
    if name != "app":
        raise AttributeError(f"module 'hindlake.cli' has no attribute {name!r}")
    from .application import app

    return app


def main() -> None:
    """Entry point of the command `hindlake`."""
    try:
        if sys.argv[1:2] == ["mcp"]:
            if not any(word.startswith(_NOT_SPOKEN_TO) for word in sys.argv[2:]):
                from ..sdk.mcp.doorstep import doorstep

                doorstep()  # before anything else is imported
            from .mcp import alone

            alone()
        elif sys.argv[1:2] == ["hook"]:
            from .hook import alone as hook_alone

            hook_alone()
        else:
            from .application import app

            app()
    except (SettingsError, UsageError) as error:
        print(f"hindlake: {error}", file=sys.stderr)
        sys.exit(2)
    except HindlakeError as error:
        print(f"hindlake: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("hindlake: stopped; what was done is kept, run it again to go on", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
