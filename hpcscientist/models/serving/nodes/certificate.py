"""The certificate that a plane of several nodes makes for itself, anew at each start.

Who has the key to it is one of the plane's servers: another user's program at one of their ports
has not, so it is shown neither the API key nor a prompt, and what nodes say to each other is
enciphered.
"""

from __future__ import annotations

import datetime
import os

from hpcscientist.models.serving.paths import ServingPaths

_LASTS = datetime.timedelta(days=365)  # longer than any job
_CLOCKS = datetime.timedelta(days=1)  # by which nodes may differ


def make(paths: ServingPaths) -> None:
    """Write certificate and key, in place of an earlier start's. Raises OSError."""
    from cryptography import x509  # noqa: PLC0415 (comes with the engine, not with us)
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hpcscientist model plane")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + _LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form, pem = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    paths.certificate_key.unlink(missing_ok=True)
    descriptor = os.open(paths.certificate_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(pem, form, plain))
    paths.certificate.write_bytes(certificate.public_bytes(pem))
