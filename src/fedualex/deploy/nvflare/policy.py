"""Who may do what at a party, and which classes a job may name there."""

import json
from pathlib import Path
from typing import Any

from ...storage import write_json
from .party import KIT

SERVER_CLASSES = ["nvflare.collab.runtime.controller.CollabController", "fedualex.deploy.nvflare.roles.ServerRole"]
SITE_CLASSES = ["nvflare.collab.runtime.executor.CollabExecutor", "fedualex.deploy.nvflare.roles.SiteRole"]

SUBMITTER = "lead"
VIEWER = "member"

PERMISSIONS = {
    "format_version": "1.0",
    "permissions": {
        SUBMITTER: {
            "submit_job": "any",
            "manage_job": "n:submitter",
            "download_job": "n:submitter",
            "clone_job": "none",
            "view": "any",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
        },
        VIEWER: {"view": "any"},
    },
}
"""NVFlare's own policy lets leads bring code ("byoc") and run shell commands; here nobody may, at any party."""

HEARTBEAT = 60
"""Seconds after which a silent site is no longer given jobs; NVFlare's 600 would hold up a job that is sent again."""

LOG_STREAMS = ("site_log_streamer", "log_receiver")

QUIET = ("nvflare.collab", "nvflare.fuel", "Group", "CellDispatcher", "ClientApp", "ServerApp")
"""Loggers that write several lines for every call of every round."""


def write_policy(party: Path) -> None:
    """Replace NVFlare's defaults for a server or a site by the narrow ones."""
    local = party / KIT / "local"
    is_server = (party / KIT / "startup" / "fed_server.json").exists()
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = SERVER_CLASSES if is_server else SITE_CLASSES
    resources["class_list_enforcement_mode"] = "enforce"
    if is_server:
        resources["servers"][0]["heart_beat_timeout"] = HEARTBEAT
        _schedule_at_once(resources)
    else:
        resources["allow_log_streaming"] = False  # a site's log may quote its data
    resources["components"] = [c for c in resources["components"] if c["id"] not in LOG_STREAMS]
    write_json(local / "resources.json", resources)
    write_json(local / "authorization.json", PERMISSIONS)
    logging = json.loads((local / "log_config.json.default").read_text())
    logging["loggers"] |= {name: {"level": "WARNING"} for name in QUIET}
    write_json(local / "log_config.json", logging)


def _schedule_at_once(resources: dict[str, Any]) -> None:
    """One job at a time, tried every few seconds until its sites are there, not ten times and never again."""
    for component in resources["components"]:
        if component["id"] == "job_scheduler":
            component["args"] = {
                "max_jobs": 1,
                "max_schedule_count": 1_000_000,
                "min_schedule_interval": 1.0,
                "max_schedule_interval": 5.0,
            }
