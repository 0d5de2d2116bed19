"""Settings from an environment passed in, never from the test run's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mcpvectordb.errors import ConfigError
from mcpvectordb.settings import Settings, default_home, load

KNOWN = ", ".join(sorted(f"MCPVECTORDB_{name.upper()}" for name in Settings.model_fields))


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load({}).model_dump() == {
        "home": default_home(),
        "model": "auto",
        "model_dimensions": 0,
        "model_file": "",
        "model_pooling": "",
        "model_document_prefix": "",
        "model_query_prefix": "",
        "model_idle_s": 900.0,
        "runtime": "auto",
        "hub_connect_s": 10.0,
        "hub_stall_s": 30.0,
        "chunk_tokens": 256,
        "max_file_mb": 50,
        "ignore": "",
        "convert_timeout_s": 120.0,
        "convert_memory_mb": 512,
        "max_text_mb": 25,
        "url_timeout_s": 30.0,
        "url_allow": "",
        "call_timeout_s": 45.0,
        "token": "",
        "token_file": None,
        "allowed_hosts": "",
        "allowed_origins": "",
        "shutdown_s": 6.0,
        "lock_timeout_s": 30.0,
        "log_level": "INFO",
        "log_file": None,
    }


def test_every_setting_can_be_set(tmp_path: Path) -> None:
    environ = {
        "MCPVECTORDB_HOME": str(tmp_path),
        "MCPVECTORDB_MODEL": "minilm",
        "MCPVECTORDB_MODEL_DIMENSIONS": "256",
        "MCPVECTORDB_MODEL_QUERY_PREFIX": "query: ",
        "MCPVECTORDB_RUNTIME": "onnx",
        "MCPVECTORDB_CHUNK_TOKENS": "64",
        "MCPVECTORDB_MAX_FILE_MB": "2000",
        "MCPVECTORDB_CALL_TIMEOUT_S": "0.5",
        "MCPVECTORDB_LOCK_TIMEOUT_S": "600",
        "MCPVECTORDB_LOG_LEVEL": "DEBUG",
        "MCPVECTORDB_LOG_FILE": str(tmp_path / "log"),
        "PATH": "/bin",
    }
    assert load(environ) == Settings(
        home=tmp_path,
        model="minilm",
        model_dimensions=256,
        model_query_prefix="query: ",
        runtime="onnx",
        chunk_tokens=64,
        max_file_mb=2000,
        call_timeout_s=0.5,
        lock_timeout_s=600,
        log_level="DEBUG",
        log_file=tmp_path / "log",
    )


def test_the_case_of_a_name_does_not_matter() -> None:
    assert load({"mcpvectordb_Chunk_Tokens": "99"}).chunk_tokens == 99


def test_a_variable_set_to_nothing_is_not_set() -> None:
    assert load({"MCPVECTORDB_CHUNK_TOKENS": "", "MCPVECTORDB_HOME": ""}) == load({})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MCPVECTORDB_CHUNK_TOKEN", "Did you mean MCPVECTORDB_CHUNK_TOKENS?"),
        ("MCPVECTORDB_MAX_FILE_SIZE", "Did you mean MCPVECTORDB_MAX_FILE_MB?"),
        ("mcpvectordb_hom", "Did you mean MCPVECTORDB_HOME?"),
        ("MCPVECTORDB_", "Did you mean MCPVECTORDB_HOME?"),
        ("MCPVECTORDB_XQZWVKJYXQZWVKJYXQZWVKJYXQ", f"Known are: {KNOWN}."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({name: "1"})
    assert str(caught.value) == f"There is no setting {name}. {hint}"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("CHUNK_TOKENS", "63", "Input should be greater than or equal to 64"),
        ("CHUNK_TOKENS", "513", "Input should be less than or equal to 512"),
        ("MAX_FILE_MB", "0", "Input should be greater than or equal to 1"),
        ("MAX_FILE_MB", "2001", "Input should be less than or equal to 2000"),
        ("LOCK_TIMEOUT_S", "0", "Input should be greater than or equal to 0.1"),
        ("CALL_TIMEOUT_S", "601", "Input should be less than or equal to 600"),
        ("RUNTIME", "torch", "Input should be 'auto', 'onnx' or 'sentence-transformers'"),
        ("LOG_LEVEL", "info", "Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({f"MCPVECTORDB_{name}": value})
    assert str(caught.value) == f"MCPVECTORDB_{name} is not valid: {problem} (it is {value!r})."


@pytest.mark.parametrize("value", ["64", "512"])
def test_the_bounds_themselves_are_allowed(value: str) -> None:
    assert load({"MCPVECTORDB_CHUNK_TOKENS": value}).chunk_tokens == int(value)


@pytest.mark.parametrize("home", ["s3://bucket/folder", "gs://bucket", "db://cloud", "file:///srv/data"])
def test_a_home_that_is_not_local_is_refused(home: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"MCPVECTORDB_HOME": home})
    assert str(caught.value) == f"MCPVECTORDB_HOME must be a local folder, not {home}."


def test_paths_are_made_absolute_and_the_home_folder_is_filled_in() -> None:
    settings = load({"MCPVECTORDB_HOME": "~/library", "MCPVECTORDB_LOG_FILE": "log/server.log"})
    assert (settings.home, settings.log_file) == (Path.home() / "library", Path.cwd() / "log/server.log")


def test_lists_are_separated_by_commas_and_a_token_is_never_shown() -> None:
    settings = load(
        {
            "MCPVECTORDB_ALLOWED_HOSTS": "engine, files.example:8765 ,",
            "MCPVECTORDB_ALLOWED_ORIGINS": "https://app.example",
            "MCPVECTORDB_TOKEN": "tell-nobody",
        }
    )
    assert settings.allowed_host_names == ("engine", "files.example:8765")
    assert settings.allowed_origin_names == ("https://app.example",)
    assert "tell-nobody" not in repr(settings)


def test_the_home_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^MCPVECTORDB_HOME is not valid: .*'~nobody-of-that-name/x'\)\.$"):
        load({"MCPVECTORDB_HOME": "~nobody-of-that-name/x"})


def test_settings_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValidationError):
        load({}).chunk_tokens = 100
