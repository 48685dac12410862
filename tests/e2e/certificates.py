"""Certificates for tests, made by openssl: authorities, and what they sign for servers and clients."""
import os
import ssl
import subprocess


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit("openssl %s failed:\n%s" % (" ".join(arguments), done.stderr))


class Authority:
    def __init__(self, folder, name):
        self.folder, self.name, self.count = folder, name, 0
        self.key, self.certificate = self.path("key"), self.path("pem")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out",
                self.certificate, "-days", "30", "-subj", "/CN=" + name, "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def path(self, kind, name=None):
        return os.path.join(self.folder, "%s.%s" % (name or self.name, kind))

    def sign(self, name, purpose, days=30):
        """(certificate, key) for localhost and 127.0.0.1. `purpose`: serverAuth or clientAuth; days below 0: it is expired."""
        certificate, key, request, extensions = (self.path(kind, name) for kind in ("pem", "key", "csr", "ext"))
        self.count += 1
        with open(extensions, "w") as file:
            file.write("basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\n"
                       "subjectAltName=DNS:localhost,IP:127.0.0.1\n" % purpose)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=" + name)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-set_serial", str(self.count), "-days", str(days),
                "-extfile", extensions, "-out", certificate)
        return certificate, key


def client(authority, certificate=None, versions=None):
    """An ssl.SSLContext that trusts the authority and shows (certificate, key)."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate:
        context.load_cert_chain(*certificate)
    if versions:
        context.minimum_version, context.maximum_version = versions
    return context
