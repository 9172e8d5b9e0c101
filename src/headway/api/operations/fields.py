"""What several routes for operators take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headway.api.bodies import NO_NUL
from headway.codec import Meta
from headway.engine.engine import LONGEST_NAME

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
DryRun = Annotated[bool, Meta(description="Only tell what would happen. Changes are made only with `false`.")]
OfInstance = Annotated[
    str | None, Query(description="Only those of this instance.", max_length=LONGEST_NAME, pattern=NO_NUL)
]
