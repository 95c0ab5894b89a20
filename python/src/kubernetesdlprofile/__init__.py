"""The training library's original name: ``from kubernetesdlprofile import kubeprofiler``."""

from . import kubeprofiler

__all__ = ["kubeprofiler"]
