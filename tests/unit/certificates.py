"""Certificates for tests, made anew in each: an authority, and what it signs."""

from __future__ import annotations

from pathlib import Path

import trustme


class Authority:
    """An authority of its own.

    Attributes:
        file: Its certificate.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def sign(self, *names: str, file: str = "own") -> str:
        """A certificate for these names and addresses, with its key in the same file; returns the file."""
        path = self._folder / f"{file}.pem"
        self._ca.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(path))
        return str(path)
