"""The fields that the installation permits in the pod templates of jobs."""

from __future__ import annotations

from enum import StrEnum


class PodTemplates(StrEnum):
    """What the templates of pods may set."""

    RESTRICTED = "Restricted"
    """What a namespace with the restricted Pod Security Standard lets in, and no account of their own."""
    ANY = "Any"
    """Everything: whoever may create a job may then create any pod."""
