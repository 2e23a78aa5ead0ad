"""Owns certificates for tests, made anew each time: an authority, a server `localhost`/127.0.0.1/::1 and a
client.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass
class Certificates:
    authority: Path
    server_pem: Path
    client_pem: Path

    def server(self, *, ask_client: bool = False, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        context.load_cert_chain(self.server_pem)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context

    def client(self, *, certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if certificate:
            context.load_cert_chain(self.client_pem)
        return context


def make(folder: Path) -> Certificates:
    authority = trustme.CA()
    made = Certificates(folder / "authority.pem", folder / "server.pem", folder / "client.pem")
    authority.cert_pem.write_to_path(made.authority)
    authority.issue_cert("localhost", "127.0.0.1", "::1").private_key_and_cert_chain_pem.write_to_path(
        made.server_pem
    )
    authority.issue_cert("client@localhost").private_key_and_cert_chain_pem.write_to_path(made.client_pem)
    return made
