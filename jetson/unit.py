"""The service under systemd: its unit, its user and its files."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..core import UsageError, open_manifest
from ..runtime import write_atomically

NAME = "edgevlm"
USER = "edgevlm"
UNIT = Path("/etc/systemd/system/edgevlm.service")
FOLDER = Path("/etc/edgevlm")
CONFIG = FOLDER / "service.toml"

_UNIT = """\
[Unit]
Description=edgevlm: Qwen3-VL with visual-token pruning
After=network.target nvpmodel.service
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={executable} serve --config {config}
User={user}
Group={user}
SupplementaryGroups={groups}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
TimeoutStartSec=infinity
TimeoutStopSec=90
KillMode=mixed
OOMPolicy=continue
OOMScoreAdjust=200
LimitNOFILE=4096

# Only what a GPU service needs. PrivateDevices and a device policy would hide the GPU, and
# MemoryDenyWriteExecute breaks compilers that run inside it.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0027
StateDirectory=edgevlm
CacheDirectory=edgevlm
Environment=HOME=/var/lib/edgevlm XDG_CACHE_HOME=/var/cache/edgevlm

[Install]
WantedBy=multi-user.target
"""


def executable() -> Path:
    """The command ``edgevlm`` of this installation."""
    return Path(sys.executable).with_name("edgevlm")


def unit_text(executable: Path, groups: Sequence[str] = ("video", "render")) -> str:
    """The unit. The settings are in ``/etc/edgevlm/service.toml``."""
    return _UNIT.format(executable=executable, config=CONFIG, user=USER, groups=" ".join(groups))


def config_text(engine: Path) -> str:
    """A first configuration file."""
    quoted = str(engine).replace("\\", "\\\\").replace('"', '\\"')
    return (
        "# Settings of the edgevlm service; `edgevlm serve --help` lists all of them.\n"
        f'engine = "{quoted}"\n'
        '# host = "0.0.0.0"\n'
        '# keys_file = "/etc/edgevlm/keys.json"    # sudo edgevlm keys add NAME\n'
    )


def install(engine: Path) -> int:
    """Write the unit and a first configuration, make the user, enable and start.

    Raises:
        UsageError: not root, no systemd, or the engine is not one.
        EngineError: the engine is stale.
    """
    _require_root("install")
    command = executable()
    if not command.is_file():
        raise UsageError(f"{command} does not exist; install edgevlm with pip first")
    engine = engine.absolute()
    open_manifest(engine / "llm", "llm")
    groups = [name for name in ("video", "render") if _group_exists(name)]
    _make_user(groups)
    gid = pwd.getpwnam(USER).pw_gid
    FOLDER.mkdir(mode=0o750, exist_ok=True)
    os.chown(FOLDER, 0, gid)
    if not CONFIG.exists():
        write_atomically(CONFIG, config_text(engine), 0o640)
        os.chown(CONFIG, 0, gid)
    write_atomically(UNIT, unit_text(command, groups))
    _run("systemctl", "daemon-reload")
    status = _run("systemctl", "enable", "--now", f"{NAME}.service")
    if status == 0:
        print(f"installed {UNIT}; settings: {CONFIG}; watch it: edgevlm service logs --follow")
    return status


def uninstall() -> int:
    """Stop and remove the unit; settings and keys stay."""
    _require_root("uninstall")
    _run("systemctl", "disable", "--now", f"{NAME}.service")
    UNIT.unlink(missing_ok=True)
    return _run("systemctl", "daemon-reload")


def status() -> int:
    """Show what systemd says."""
    return _run("systemctl", "status", "--no-pager", f"{NAME}.service")


def logs(follow: bool) -> int:
    """Show the log."""
    return _run(
        *("journalctl", "--unit", f"{NAME}.service", "--output", "cat", "--lines", "200"),
        *(("--follow",) if follow else ("--no-pager",)),
    )


def _make_user(groups: Sequence[str]) -> None:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        home = ("--no-create-home", "--home-dir", "/var/lib/edgevlm")
        shell = ("--shell", "/usr/sbin/nologin")
        if _run("useradd", "--system", "--user-group", *home, *shell, USER) != 0:
            raise UsageError(f"the user {USER} cannot be made; make it and try again") from None
    for group in groups:
        _run("usermod", "--append", "--groups", group, USER)


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _require_root(action: str) -> None:
    if os.geteuid() != 0:
        raise UsageError(f"`edgevlm service {action}` changes the system; run it with sudo")


def _run(*command: str) -> int:
    """Run a system command, its output shown.

    Raises:
        UsageError: there is no such command.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]} is not installed; this machine does not run systemd")
    return subprocess.run(command, check=False).returncode
