"""`python -m hindlake.cli` is `hindlake`."""

from . import main

main()
