"""The certificate of the TLS rows: self-signed, made by `openssl` for one process, trusted by its client."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

CERTIFICATE = "certificate.pem"
_KEY = "key.pem"


def make(folder: Path) -> None:
    """ECDSA, so that sixty-four handshakes do not take longer than what is measured after them."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
    )
    files = ("-keyout", str(folder / _KEY), "-out", str(folder / CERTIFICATE))
    done = subprocess.run((*command.split(), *files), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"openssl: {done.stderr.strip()}")


def server_context(folder: Path) -> ssl.SSLContext:
    """TLS 1.3 only, as the client speaks it."""
    make(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / CERTIFICATE, folder / _KEY)
    return context
