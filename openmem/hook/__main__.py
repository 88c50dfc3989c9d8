"""`python -m openmem.hook EVENT --agent A`."""

from __future__ import annotations

import sys

from openmem.hook.client import main

sys.exit(main())
