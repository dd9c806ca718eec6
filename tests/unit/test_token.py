"""The token: where it comes from, how it is made, and where one may listen without it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from router.process.access import TOKEN, TOKEN_FILE, Access, access_from_environment, bind_fault
from router.protocol.errors import SettingsError
from services.cli import run_command

SECRET = "Zm9vYmFyLWZvb2Jhci1mb29iYXI"
RIGHT = {"Authorization": f"Bearer {SECRET}"}


def test_the_file_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not access_from_environment().needed
    monkeypatch.setenv(TOKEN, "a-token-from-the-environment")
    assert access_from_environment().headers() == {"Authorization": "Bearer a-token-from-the-environment"}
    file = tmp_path / "token"
    file.write_text(f"  {SECRET}\n")
    monkeypatch.setenv(TOKEN_FILE, str(file))
    assert access_from_environment().headers() == RIGHT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short-secret", "holds 12 characters: expected a token of 16 to 1024"),
        ("two-secret words-secret", "expected one word of letters"),
        ("secret-\x00-with-a-nought", "expected one word of letters"),
        ("secret" * 200, "holds 1200 characters"),
        ("", "holds 0 characters"),
        ("geheim-secret-ä-geheim", "the token cannot be read: it is not plain text"),
    ],
)
def test_a_token_that_is_none_is_told_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv(TOKEN_FILE, str(file))
    with pytest.raises(SettingsError) as error:
        access_from_environment()
    assert why in str(error.value) and "secret" not in str(error.value)


def test_a_file_of_a_token_is_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_FILE, "/dev/zero")
    with pytest.raises(SettingsError, match="the file /dev/zero holds 65536 characters"):
        access_from_environment()


def test_a_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "none"))
    with pytest.raises(SettingsError, match=f"{TOKEN_FILE} = .*/none: the token cannot be read: No such file"):
        access_from_environment()
    # An option is put where the environment has it.
    monkeypatch.delenv(TOKEN_FILE)
    code = run_command(["policy", "pull", "--routers", "127.0.0.1:1", "--token-file", str(tmp_path / "none")])
    assert code == 2 and "/none: the token cannot be read" in capsys.readouterr().err


def test_an_empty_variable_is_no_word_for_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, other in ((TOKEN, TOKEN_FILE), (TOKEN_FILE, TOKEN)):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(other, raising=False)
        with pytest.raises(SettingsError, match=f"{variable} is set, but empty: give it a value, or unset it"):
            access_from_environment()


def test_an_empty_variable_beside_a_token_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    for file_variable, variable in ((str(file), ""), ("", SECRET)):
        monkeypatch.setenv(TOKEN_FILE, file_variable)
        monkeypatch.setenv(TOKEN, variable)
        assert access_from_environment().headers() == RIGHT


@pytest.mark.parametrize("option", ["--token-file", "--tls-cert", "--tls-key", "--tls-ca", "--tls-client-ca"])
@pytest.mark.parametrize("also", ["", "a-token-from-the-environment"])
def test_an_option_that_is_empty_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, also: str
) -> None:
    if also:
        monkeypatch.setenv(TOKEN, also)
    assert run_command(["policy", "pull", "--routers", "127.0.0.1:1", option, ""]) == 2
    assert f'{option} "": expected the name of a file, found nothing' in capsys.readouterr().err


def test_a_token_is_made_once_and_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    assert run_command(["token", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "made": True}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    made = file.read_text()
    assert run_command(["token", str(file)]) == 0 and file.read_text() == made
    assert made.strip() not in capsys.readouterr().out
    monkeypatch.setenv(TOKEN_FILE, str(file))
    assert access_from_environment().needed
    assert run_command(["token", str(tmp_path / "no" / "folder")]) == 2


# -- where a process may listen ---------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_be_listened_to_without_a_token(address: str) -> None:
    assert bind_fault(address, Access(None)) == ""


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7", "192.0.2.1", "fe80::1%eth0", "::ffff:10.0.0.1"])
def test_no_other_may(address: str) -> None:
    fault = bind_fault(address, Access(None))
    assert "--token-file FILE, HERDLESS_TOKEN_FILE or HERDLESS_TOKEN" in fault and "--host 127.0.0.1" in fault
    assert bind_fault(address, Access(SECRET)) == ""
