"""`python -m hookgate.proxy` is the `hookgate` command."""

import sys

from hookgate.proxy.cli import main

sys.exit(main())
