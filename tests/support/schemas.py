"""The JSON schemas that the documentation publishes."""

from __future__ import annotations

import json
from typing import Any

from tests.support.places import ROOT

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "analysis.schema.json").read_text(encoding="utf-8"))
