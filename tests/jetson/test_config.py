"""Four layers of settings, and what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from edgevlm.cli.main import main
from edgevlm.core import UsageError
from edgevlm.jetson import ServiceConfig, resolve_config
from edgevlm.jetson.config_help import SETTING_HELP


def test_later_layers_win(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('engine = "a"\nport = 1\nslots = 2\nqueue_timeout_s = 5\n')
    environment = {"EDGEVLM_PORT": "2", "EDGEVLM_MEDIA_FETCH": "yes", "HOME": "/"}
    resolved = resolve_config({"port": 3}, environment, file)
    config, sources = resolved.config, resolved.sources
    assert (config.engine, config.port, config.slots) == (Path("a"), 3, 2)
    assert config.media_fetch is True and config.queue_timeout_s == 5.0
    assert sources["port"] == "flag" and sources["slots"] == str(file)
    assert sources["media_fetch"] == "EDGEVLM_MEDIA_FETCH" and sources["host"] == "default"
    named = resolve_config({}, {"EDGEVLM_CONFIG": str(file)})
    assert named.config.port == 1
    unknown = resolve_config({"engine": Path("a")}, {"EDGEVLM_PROT": "5"})
    assert "EDGEVLM_PROT" in unknown.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown setting 'prot'"),
        ("port = true", "port must be a int"),
        ("port = ", "not valid TOML"),
        ("port = 70000", "port must be at most 65535"),
        ('pruning_ratio = "much"', "pruning_ratio must be a float or auto, got 'much'"),
        ("pruning_ratio = 1.0", 'pruning_ratio must be below 1, or "auto", got 1.0'),
        ("slots = 0", "slots must be at least 1"),
        ("queue_timeout_s = 0", "queue_timeout_s must be a number above 0"),
        ('tls_cert = "x"', "belong together"),
        ('host = "0.0.0.0"', "edgevlm keys add"),
        ('host = "::"', "edgevlm keys add"),
        ('host = "board.local"', "edgevlm keys add"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "service.toml"
    file.write_text(f'engine = "a"\n{text}\n')
    with pytest.raises(UsageError, match=message):
        resolve_config({}, {}, file)


def test_wrong_variables_and_a_missing_engine() -> None:
    with pytest.raises(UsageError, match="EDGEVLM_PORT must be a int, got 'x'"):
        resolve_config({"engine": Path("a")}, {"EDGEVLM_PORT": "x"})
    with pytest.raises(UsageError, match="EDGEVLM_LOG_CONTENT must be true or false"):
        resolve_config({"engine": Path("a")}, {"EDGEVLM_LOG_CONTENT": "maybe"})
    with pytest.raises(UsageError, match="no engine"):
        resolve_config({}, {})


def test_a_ratio_may_be_automatic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "service.toml"
    file.write_text('engine = "a"\npruning_ratio = "auto"\n')
    assert resolve_config({}, {}, file).config.pruning_ratio == "auto"
    environment = {"EDGEVLM_PRUNING_RATIO": "0.5"}
    assert resolve_config({}, environment, file).config.pruning_ratio == 0.5
    environment = {"EDGEVLM_ENGINE": "a", "EDGEVLM_PRUNING_RATIO": "auto"}
    assert resolve_config({}, environment).config.pruning_ratio == "auto"
    for flag, shown in (("auto", "auto"), ("0.5", 0.5)):
        assert main(["serve", "--engine", "a", "--pruning-ratio", flag, "--print-config"]) == 0
        assert json.loads(capsys.readouterr().out)["pruning_ratio"]["value"] == shown
    with pytest.raises(SystemExit):
        main(["serve", "--engine", "a", "--pruning-ratio", "much"])
    assert "must be a float or auto, got 'much'" in capsys.readouterr().err


def test_expert_routing_comes_from_every_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ServiceConfig(Path("a"), sere_top_k=1, macs_gain=0.0).expert_routing == {}
    file = tmp_path / "service.toml"
    file.write_text('engine = "a"\nsere_file = "s"\nsere_top_k = 1\nmacs_capacity_factor = 2\n')
    environment = {"EDGEVLM_SERE_THRESHOLD": "0", "EDGEVLM_MACS": "yes", "EDGEVLM_MACS_GAIN": "0"}
    flags = {"sere_top_k": 3, "sere_protect": 0, "macs_file": Path("m")}
    assert resolve_config(flags, environment, file).config.expert_routing == {
        "sere_file": "s",
        "sere": {"top_k": 3, "threshold": 0.0, "protect": 0},
        "macs_file": "m",
        "macs": {"capacity_factor": 2.0, "gain": 0.0, "sensitivity": 1.0},
    }
    words = ["serve", "--config", str(file), "--macs", "--sere-protect", "4", "--print-config"]
    assert main(words) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sere_top_k"] == {"value": 1, "from": str(file)}
    assert shown["macs"] == {"value": True, "from": "flag"}
    assert shown["sere_protect"] == {"value": 4, "from": "flag"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sere_threshold = -0.1", "sere_threshold must be a number from 0 up, got -0.1"),
        ("sere_threshold = 1.5", "SERE: threshold must be a number from 0 to 1, got 1.5"),
        ("sere_top_k = 0", "SERE: top_k must be an integer from 1 on, got 0"),
        ("sere_top_k = 1.5", "sere_top_k must be a int, got 1.5"),
        ("sere_protect = -1", "SERE: protect must be an integer from 0 on"),
        ("macs_capacity_factor = 0", "macs_capacity_factor must be a number above 0, got 0"),
        ("macs_gain = 3", r"MACS: gain must be a number in 0\.\.2, got 3"),
        ("macs_sensitivity = -1", "macs_sensitivity must be a number from 0 up, got -1"),
        ("macs_file = 5", "macs_file must be a Path, got 5"),
    ],
)
def test_expert_routing_out_of_range(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "service.toml"
    file.write_text(f'engine = "a"\nsere_file = "s"\nmacs = true\n{text}\n')
    with pytest.raises(UsageError, match=message):
        resolve_config({}, {}, file)


def test_loopback_needs_no_keys() -> None:
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1"):
        assert ServiceConfig(Path("a"), host=host).loopback


def test_every_setting_is_explained() -> None:
    assert list(SETTING_HELP) == [field.name for field in fields(ServiceConfig)]


def test_the_command_shows_settings_and_refuses_what_is_not_an_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--engine", str(tmp_path), "--port", "0", "--print-config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["port"] == {"value": 0, "from": "flag"}
    assert main(["serve", "--engine", str(tmp_path), "--port", "0"]) != 0
    assert str(tmp_path / "llm") in capsys.readouterr().err


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main(["serve", "--engine", "engines/tiny"]) == 2
    assert "pip install 'edgevlm[jetson]'" in capsys.readouterr().err
