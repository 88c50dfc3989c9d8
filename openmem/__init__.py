"""openmem keeps what coding agents forget. The version stands here and nowhere else in code."""

__version__ = "0.1.0"
