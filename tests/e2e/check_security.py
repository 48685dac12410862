"""Who may do what with the running executable: the admin token and address, TLS with certificates of both sides, pages of other origins,
connections from one address, large headers. Usage: check_security.py ATTND"""
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from attnd_process import START_SECONDS, TRIES, Attnd
from certificates import Authority, client

FORWARD = json.dumps({"input": [[0.25] * 64, [0.5] * 64]})
JSON = {"Content-Type": "application/json"}


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit("%s: %r, expected %r" % (what, got, wanted))


def write(folder, name, content):
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    os.rename(path + ".new", path)
    return path


def check_config(binary, path, environment=None):
    own = {name: value for name, value in os.environ.items() if not name.startswith("ATTND_")}
    done = subprocess.run([binary, "--config", path, "--check-config"], capture_output=True, text=True, timeout=60, env={**own, **(environment or {})})
    return done.returncode, done.stderr


# ---- the admin listener

def admin_listener(binary, folder):
    token = write(folder, "token", "first\n")
    config = {"admin": {"listen": "127.0.0.1:0", "token_file": "token"}, "live": {"access": "admin"}}
    with Attnd(binary, ["--config", write(folder, "admin.json", config)]) as server:
        admin = server.admin_address
        expect("an admin address", bool(admin) and admin != server.address, True)
        mine, other = {"Authorization": "Bearer first"}, {"Authorization": "Bearer second"}
        for method, path in (("POST", "/v1/weights/demo/reload"), ("POST", "/v1/heads/reset"), ("GET", "/v1/heads/stats"), ("GET", "/v1/heads/state")):
            expect("%s in public" % path, server.request(method, path, headers={**mine, "Content-Length": "0"}).status, 404)
            expect("%s with the token" % path, server.request(method, path, headers=mine, address=admin).status, 200)
            expect("%s without" % path, server.request(method, path, address=admin).status, 401)
            expect("%s with a wrong one" % path, server.request(method, path, headers=other, address=admin).status, 401)
        expect("a forward there", server.request("POST", "/v1/forward", FORWARD, JSON, address=admin).status, 404)
        expect("the weights there", server.request("GET", "/v1/weights", address=admin).status, 404)
        for path in ("/healthz", "/readyz"):
            expect(path + " there", server.request("GET", path, address=admin).status, 200)
        expect("a forward in public", server.request("POST", "/v1/forward", FORWARD, JSON).status, 200)

        # The token is read again.
        write(folder, "token", "second\n")
        server.reload()
        expect("the old token", server.request("POST", "/v1/heads/reset", headers=mine, address=admin).status, 401)
        expect("the new token", server.request("POST", "/v1/heads/reset", headers=other, address=admin).status, 200)
        write(folder, "token", "\n")
        lines = server.reload()
        expect("an empty token is said", any("holds no token" in line.get("message", "") for line in lines), True)
        expect("and changes nothing", server.request("POST", "/v1/heads/reset", headers=other, address=admin).status, 200)
        os.remove(token)
        lines = server.reload()
        expect("no token file is said", any("cannot read" in line.get("message", "") for line in lines), True)
        expect("and changes nothing either", server.request("POST", "/v1/heads/reset", headers=other, address=admin).status, 200)

    # On loopback it needs no token.
    with Attnd(binary, ["--config", write(folder, "admin.json", {"admin": {"listen": "127.0.0.1:0"}})]) as server:
        expect("without tokens", server.request("POST", "/v1/heads/reset", address=server.admin_address).status, 200)
        expect("and nowhere else", server.request("POST", "/v1/heads/reset").status, 404)

    for config, part in (({"admin": {"listen": "0.0.0.0:0"}}, ":1: /admin/listen: other machines"),
                         ({"admin": {"listen": "127.0.0.1:0", "token_file": "nowhere"}}, ":1: /admin/token_file: cannot read "),
                         ({"admin": {"token_file": "empty"}}, ":1: /admin/token_file: %s holds no token" % os.path.join(folder, "empty")),
                         ({"tls": {"cert_file": "nowhere"}}, "set tls.key_file too")):
        write(folder, "empty", "\n")
        path = write(folder, "wrong.json", config)
        code, said = check_config(binary, path)
        expect("%s: the exit code (%s)" % (config, said), (code, part in said, path in said), (2, True, True))
        started = subprocess.run([binary, "--config", path, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        expect("%s: the start" % config, (started.returncode, part in started.stderr), (2, True))


    path = write(folder, "twice.json", {"listen": ["127.0.0.1:1", "127.0.0.1:2"], "admin": {"listen": "127.0.0.1:2"}})
    expect("one address for both", check_config(binary, path), (2, path + ":1: /admin/listen: this address is in `listen` too; expected one of its own\n"))
    path = write(folder, "twice.json", {"listen": ["127.0.0.1:0"], "admin": {"listen": "127.0.0.1:0"}})
    expect("port 0 for both", check_config(binary, path), (0, ""))

    # What a route does not read has no type that could be wrong.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with Attnd(binary, ["--config", write(folder, "admin.json", {"admin": {"listen": "127.0.0.1:0"}})]) as server:
        for path in ("/v1/heads/reset", "/v1/weights/demo/reload"):
            expect(path + " of curl --data ''", server.request("POST", path, "", form, address=server.admin_address).status, 200)
            expect(path + " with a form", server.request("POST", path, "a=b", form, address=server.admin_address).status, 415)
        expect("a forward of curl --data ''", server.request("POST", "/v1/forward", "", form).status, 415)


# ---- TLS

def wrong_files(binary, folder, own, authority):
    """Every file of tls.* that does not do is named by its key, with what is the matter with it; all at once."""
    certificate, key = own
    expired = authority.sign("past", "serverAuth", days=-1)
    foreign = authority.sign("foreign", "serverAuth")[1]
    encrypted = os.path.join(folder, "encrypted.key")
    subprocess.run(["openssl", "pkey", "-in", key, "-out", encrypted, "-aes128", "-passout", "pass:x"], check=True)
    text = write(folder, "text", "no PEM\n")
    for tls, place, said in (((certificate, "nowhere", None), "key_file", "cannot read %s: No such file" % os.path.join(folder, "nowhere")),
                             (("nowhere", key, None), "cert_file", "cannot read %s: No such file" % os.path.join(folder, "nowhere")),
                             ((folder, key, None), "cert_file", "Is a directory"),
                             ((text, key, None), "cert_file", "holds no certificate"),
                             ((certificate, text, None), "key_file", "holds no private key"),
                             ((certificate, encrypted, None), "key_file", "is encrypted"),
                             ((certificate, foreign, None), "key_file", "does not go with the certificate in " + certificate),
                             ((certificate, key, "nowhere"), "client_ca_file", "cannot read"),
                             ((certificate, key, key), "client_ca_file", "holds no certificate")):
        names = dict(zip(("cert_file", "key_file", "client_ca_file"), tls))
        path = write(folder, "wrong.json", {"tls": names, "admin": {"token_file": "nowhere"}})
        code, lines = check_config(binary, path)
        expect("%s: the lines (%s)" % (tls, lines), (code, len(lines.splitlines())), (2, 2))
        expect("%s: the place and what is said (%s)" % (tls, lines), (lines.count("%s:1: /tls/%s: " % (path, place)), said in lines), (1, True))
    variables = {"ATTND_TLS_CERT_FILE": certificate, "ATTND_TLS_KEY_FILE": "nowhere"}
    code, lines = check_config(binary, write(folder, "empty.json", {}), variables)
    expect("the variable as the place (%s)" % lines, (code, lines.startswith("ATTND_TLS_KEY_FILE: cannot read")), (2, True))

    # Who replaces an expired certificate must be able to start: a warning.
    path = write(folder, "expired.json", {"tls": dict(zip(("cert_file", "key_file"), expired))})
    code, lines = check_config(binary, path)
    expect("an expired certificate (%s)" % lines, (code, "warning: %s:1: /tls/cert_file: the certificate has expired" % path in lines), (0, True))
    careless = client(authority)
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    with Attnd(binary, ["--config", path], tls=careless) as server:
        text = server.request("GET", "/metrics").body.decode()
    wanted = ssl.cert_time_to_seconds(subprocess.run(["openssl", "x509", "-in", expired[0], "-noout", "-enddate"], capture_output=True, text=True,
                                                   check=True).stdout.strip().split("=")[1])
    expect("the end of the certificate in metrics", [float(line.split()[1]) for line in text.splitlines() if line.startswith("attnd_certificate_expiry_timestamp_seconds ")], [wanted])
    write(folder, "soon.json", {"tls": {"cert_file": certificate, "key_file": key}})
    with Attnd(binary, ["--config", os.path.join(folder, "soon.json")], tls=client(authority)) as server:
        write(folder, "soon.json", {"tls": dict(zip(("cert_file", "key_file"), expired))})
        lines = server.reload()
        expect("it is said at a reload (%s)" % lines, any("has expired" in line.get("message", "") for line in lines), True)


def refused(server, tls, what):
    """The handshake fails, or (TLS 1.3 lets the client think that it is through) nothing is answered."""
    try:
        status = server.request("GET", "/healthz", tls=tls).status
    except (ssl.SSLError, ConnectionError):
        return
    raise SystemExit("%s: answered with %d" % (what, status))


def tls(binary, folder):
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    first, second = authority.sign("first", "serverAuth"), authority.sign("second", "serverAuth")
    config = {"tls": {"cert_file": "shown.pem", "key_file": "shown.key"}, "server": {"upload_timeout_s": 300, "idle_timeout_s": 300, "io_threads": 2}}

    def show(pair):
        for path, name in zip(pair, ("shown.pem", "shown.key")):
            write(folder, name, open(path).read())

    def shown(server):
        connection = server.connect()
        connection.connect()
        name = dict(part[0] for part in connection.sock.getpeercert()["subject"])["commonName"]
        connection.close()
        return name

    show(first)
    path = write(folder, "tls.json", config)
    with Attnd(binary, ["--config", path], tls=client(authority)) as server:
        expect("the certificate", shown(server), "first")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            reply = server.request("POST", "/v1/forward", FORWARD, JSON, tls=client(authority, versions=(version, version)))
            expect("a forward by %s" % version.name, reply.status, 200)
        plain = http_words(server.address, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        expect("plain HTTP", plain.startswith(b"HTTP/"), False)
        old = subprocess.run(["openssl", "s_client", "-connect", server.address, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
        expect("TLS 1.1", old.returncode != 0, True)
        alpn = client(authority)
        alpn.set_alpn_protocols(["h2", "http/1.1"])
        with alpn.wrap_socket(socket.create_connection(server.address.rsplit(":", 1)), server_hostname="localhost") as wrapped:
            expect("the protocol", wrapped.selected_alpn_protocol(), "http/1.1")
        curl = subprocess.run(["curl", "-sS", "--http2", "--cacert", authority.certificate, "-d", FORWARD, "-H", "Content-Type: application/json",
                               "-o", os.devnull, "-w", "%{http_code} %{http_version}", server.base + "/v1/forward"], capture_output=True, text=True, timeout=60)
        expect("curl (%s)" % curl.stderr, curl.stdout, "200 1.1")

        big_answers(server)
        suspended_then_gone(server)

        # Certificates are read again; connections that are there go on.
        kept = server.connect()
        kept.request("GET", "/healthz")
        kept.getresponse().read()
        show(second)
        server.reload()
        expect("the new certificate", shown(server), "second")
        kept.request("GET", "/healthz")
        expect("the old connection", kept.getresponse().status, 200)
        kept.close()
        write(folder, "shown.key", open(first[1]).read()) # not the certificate's
        lines = server.reload()
        expect("a key of another certificate is said", any("/tls/key_file" in line.get("message", "") for line in lines), True)
        expect("and changes nothing", shown(server), "second")
        write(folder, "shown.key", open(second[1]).read())
        write(folder, "tls.json", {})
        lines = server.reload()
        expect("that TLS stays is said", any("tls.cert_file" in line.get("unchanged", []) for line in lines), True)
        expect("and it stays", shown(server), "second")

    config["server"]["upload_timeout_s"] = 1
    with Attnd(binary, ["--config", write(folder, "short.json", {**config, "tls": {"cert_file": second[0], "key_file": second[1]}})],
               {"ATTND_SERVER_DRAIN_DELAY_S": "0"}, tls=client(authority)) as server:
        too_long(server)
        handshakes_end(server)
    config["server"]["upload_timeout_s"] = 300

    wrong_files(binary, folder, second, authority)
    mutual(binary, folder, config, authority, stranger, first)


def mutual(binary, folder, config, authority, stranger, own):
    clients = {"good": authority.sign("good", "clientAuth"), "expired": authority.sign("expired", "clientAuth", days=-1),
               "of another authority": stranger.sign("other", "clientAuth"), "for servers": authority.sign("server2", "serverAuth"),
               "signed by itself": (stranger.certificate, stranger.key)}
    config["tls"] = {"cert_file": own[0], "key_file": own[1], "client_ca_file": "authority.pem"}
    config["listen"] = ["127.0.0.1:0"]
    config["admin"] = {"listen": "127.0.0.1:0"}
    path = write(folder, "mutual.json", config)
    with Attnd(binary, ["--config", path], tls=client(authority, clients["good"])) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            versions = (version, version)
            expect("a good certificate", server.request("POST", "/v1/forward", FORWARD, JSON, tls=client(authority, clients["good"], versions)).status, 200)
            refused(server, client(authority, None, versions), "no certificate by %s" % version.name)
            for name, pair in clients.items():
                if name != "good":
                    refused(server, client(authority, pair, versions), "a certificate %s by %s" % (name, version.name))
        expect("reset at the admin address", server.request("POST", "/v1/heads/reset", address=server.admin_address).status, 200)
        # The server's own certificate is let in: the health check shows it.
        # It has five seconds, which may pass while the machine stands still.
        for _ in range(TRIES):
            own_line = subprocess.run([binary, "--config", path, "--listen", server.address, "--health"], capture_output=True, text=True, timeout=60)
            if own_line.returncode == 0:
                break
        expect("--health (%s)" % own_line.stderr, own_line.returncode, 0)
        # Another authority from now on.
        config["tls"]["client_ca_file"] = "stranger.pem"
        write(folder, "mutual.json", config)
        server.reload()
        refused(server, client(authority, clients["good"]), "what was good before the reload")
        expect("the other authority's", server.request("GET", "/healthz", tls=client(authority, clients["of another authority"])).status, 200)


def drain_over_tls(binary, folder):
    """Clients that open a connection for each request while the server stops: what was sent is answered, with 503 at worst."""
    authority = Authority(folder, "authority")
    certificate, key = authority.sign("server", "serverAuth")
    path = write(folder, "drain.json", {"tls": {"cert_file": certificate, "key_file": key}})
    statuses, faults, asked_to_stop = [], [], threading.Event()
    with Attnd(binary, ["--config", path], {"ATTND_SERVER_DRAIN_DELAY_S": "0.5"}, tls=client(authority)) as server:

        def run(tokens):
            text = json.dumps({"input": [[0.5] * 64] * tokens})
            while True:
                connection = server.connect()
                try:
                    connection.connect()
                except OSError as error:
                    if not asked_to_stop.is_set():
                        faults.append(repr(error))
                    return
                ready, asked = time.monotonic(), None
                try:
                    connection.request("POST", "/v1/forward", text, JSON)
                    asked = time.monotonic()
                    answer = connection.getresponse()
                    answer.read()
                except OSError as error:
                    # Who says nothing for half a second behind the handshake, because the machine stands still, may find it closed.
                    if (asked or time.monotonic()) - ready < 0.25:
                        faults.append(repr(error))
                    return
                statuses.append(answer.status)
                connection.close()

        running = [threading.Thread(target=run, args=(tokens,)) for tokens in (4, 400, 4, 400)]
        for thread in running:
            thread.start()
        until = time.monotonic() + START_SECONDS
        while statuses.count(200) <= 10 and not faults and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
        asked_to_stop.set()
        server.process.terminate()
        for thread in running:
            thread.join()
    expect("requests that were lost", faults, [])
    expect("answers", (set(statuses) <= {200, 503}, statuses.count(200) > 10), (True, True))


def http_words(address, sent, seconds=60):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=seconds) as plain:
        try:
            plain.sendall(sent)
            return plain.recv(4096)
        except ConnectionError:
            return b""


def big_answers(server):
    """Whole, in place and streamed, against those of a small question asked many times."""
    rows = [[(i * 37 + j * 11) % 97 / 97 for j in range(64)] for i in range(600)]
    one = json.loads(server.post("/v1/forward", {"input": rows}).body)
    again = json.loads(server.request("POST", "/v1/forward", json.dumps({"input": rows, "encoding": "base64"}), JSON).body)
    expect("a map's rows", (len(one["attention"]), len(one["attention"][0])), (8, 600))
    expect("sums of rows", all(abs(sum(row) - 1) < 1e-4 for row in one["attention"][7]), True)
    expect("the shape", again["shapes"]["attention"], [8, 600, 600])
    expect("the digest", again["digest"], one["digest"])


def suspended_then_gone(server):
    """Clients that leave while their request is computed: nothing is lost, and the server goes on."""
    rows = json.dumps({"input": [[0.5] * 64] * 1500, "return": ["output"]})
    for _ in range(5):
        connection = server.connect()
        connection.request("POST", "/v1/forward", rows, JSON)
        connection.close()
    expect("a forward behind them", server.request("POST", "/v1/forward", FORWARD, JSON).status, 200)


def too_long(server):
    """An upload that stops is closed. The machine may stand still until it is over before it has begun: then it begins again."""
    for _ in range(TRIES):
        connection, begun = server.connect(), None
        try:
            connection.putrequest("POST", "/v1/forward")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", "100")
            connection.endheaders()
            connection.send(b"{")
            begun = time.monotonic()
            connection.getresponse().read()
            raise SystemExit("an upload that stops is answered over TLS")
        except (ConnectionError, ssl.SSLError, OSError):
            if begun:
                expect("closed by the deadline of 1 s", time.monotonic() - begun < START_SECONDS - 5, True)
                return
        finally:
            connection.close()
    raise SystemExit("no upload began in a second")


def handshakes_end(server):
    """One that never begins, and one that stops after its first bytes: both are closed by server.upload_timeout_s (1 s), far before
    server.idle_timeout_s; a connection whose handshake is over may be idle for longer. Its own handshake, or its request, is late where the
    machine stands still."""
    host, port = server.address.rsplit(":", 1)
    for _ in range(TRIES):
        idle = server.connect()
        try:
            idle.connect()
            silent = [socket.create_connection((host, int(port)), timeout=START_SECONDS) for _ in range(4)]
            for number, plain in enumerate(silent):
                try:
                    if number >= 2:
                        plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                    while plain.recv(4096):
                        pass
                except ConnectionError:
                    pass
                plain.close()
            time.sleep(0.3)
            idle.request("GET", "/healthz")
            expect("the idle connection", idle.getresponse().status, 200)
            return
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            idle.close()
    raise SystemExit("no connection is idle for longer than a handshake may take")


# ---- pages of other origins

def cors(binary, folder):
    asks = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    with Attnd(binary) as server:
        reply = server.request("POST", "/v1/forward", FORWARD, {**JSON, "Origin": "https://app.example"})
        expect("off", (reply.status, [n for n in reply.headers if n.startswith("access-control")], "Origin" in reply.headers["vary"]), (200, [], False))
        reply = server.request("OPTIONS", "/v1/forward", headers=asks)
        expect("a preflight where it is off", (reply.status, reply.headers["allow"]), (405, "POST"))

    path = write(folder, "cors.json", {"cors": {"allowed_origins": ["https://app.example", "http://localhost:3000"]}, "admin": {"token_file": "t"}})
    write(folder, "t", "t\n")
    with Attnd(binary, ["--config", path]) as server:
        reply = server.request("OPTIONS", "/v1/forward", headers=asks)
        expect("a preflight", (reply.status, reply.body, reply.headers["access-control-allow-origin"], reply.headers["access-control-allow-methods"]),
               (204, b"", "https://app.example", "POST"))
        expect("its headers", "content-type" in reply.headers["access-control-allow-headers"].lower(), True)
        expect("no credentials", "access-control-allow-credentials" in reply.headers, False)
        expect("varies", vary(reply), True)
        reply = server.request("OPTIONS", "/v1/weights/demo", headers={**asks, "Access-Control-Request-Method": "GET"})
        expect("a preflight of GET", (reply.status, reply.headers["access-control-allow-methods"]), (204, "GET, HEAD"))
        reply = server.request("OPTIONS", "/v1/heads/reset", headers=asks)
        expect("a preflight brings no token", reply.status, 204)
        reply = server.request("OPTIONS", "/v1/heads/reset", headers={**asks, "Origin": "https://evil.example"})
        expect("another origin's", (reply.status, "access-control-allow-origin" in reply.headers, vary(reply)), (405, False, True))
        expect("of another method", server.request("OPTIONS", "/v1/forward", headers={**asks, "Access-Control-Request-Method": "PUT"}).status, 405)
        expect("of no route", server.request("OPTIONS", "/nowhere", headers=asks).status, 404)
        expect("with a body", server.request("OPTIONS", "/v1/forward", "x" * 100000, asks).status, 204)
        reply = server.request("POST", "/v1/forward", FORWARD, {**JSON, "Origin": "http://localhost:3000"})
        expect("an allowed origin", (reply.status, reply.headers["access-control-allow-origin"], vary(reply)), (200, "http://localhost:3000", True))
        exposed = set(reply.headers["access-control-expose-headers"].lower().split(", "))
        own = {name for name in reply.headers if not name.startswith("access-control-")}
        expect("what it may read", own - exposed - {"date", "connection", "content-type", "content-length", "vary"}, set())
        reply = server.request("POST", "/v1/forward", FORWARD, {**JSON, "Origin": "https://app.example.evil"})
        expect("one that is not", (reply.status, "access-control-allow-origin" in reply.headers, vary(reply)), (200, False, True))
        reply = server.request("POST", "/v1/forward", "{", {**JSON, "Origin": "https://app.example"})
        expect("a fault can be read", (reply.status, reply.headers["access-control-allow-origin"]), (400, "https://app.example"))
        # All from now on.
        write(folder, "cors.json", {"cors": {"allowed_origins": ["*"]}})
        server.reload()
        reply = server.request("GET", "/v1/weights", headers={"Origin": "https://anyone.example"})
        expect("all", (reply.status, reply.headers["access-control-allow-origin"], vary(reply), "access-control-allow-credentials" in reply.headers),
               (200, "*", False, False))


def vary(reply):
    return "Origin" in reply.all("vary")


# ---- limits

def limits(binary, folder):
    path = write(folder, "limits.json", {"server": {"max_connections_per_address": 3}})
    with Attnd(binary, ["--config", path]) as server:
        kept, until = [], time.monotonic() + START_SECONDS
        while len(kept) < 3: # those of the start may not be gone yet
            connection = server.connect()
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                kept.append(connection)
            else:
                connection.close()
                expect("up to the limit", time.monotonic() < until, True)
        reply = server.request("GET", "/healthz")
        expect("beyond", (reply.status, b"max_connections_per_address" in reply.body), (503, True))
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0), timeout=60) as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            expect("another address", other.recv(12), b"HTTP/1.1 200")
        kept[0].close()
        until = time.monotonic() + START_SECONDS
        while server.request("GET", "/healthz").status != 200:
            expect("a place comes back", time.monotonic() < until, True)
            time.sleep(0.05)
        write(folder, "limits.json", {})
        kept[1].request("GET", "/healthz")
        answer = kept[1].getresponse()
        expect("one that is there", (answer.status, answer.read() != b""), (200, True))
        server.reload()
        more = [server.connect() for _ in range(5)]
        for connection in more:
            connection.request("GET", "/healthz")
            expect("without the limit", connection.getresponse().status, 200)
        for connection in kept + more:
            connection.close()
        # Headers have a limit of their own.
        expect("16 KiB of headers", server.request("GET", "/healthz", headers={"x-filler": "a" * 16384}).status, 200)
        expect("60 KiB", server.request("GET", "/healthz", headers={"x-filler": "a" * 61440}).status, 431)
        expect("a long target", server.request("GET", "/" + "a" * 61440).status in (414, 431), True)


def main():
    binary = sys.argv[1]
    for check in (admin_listener, tls, drain_over_tls, cors, limits):
        with tempfile.TemporaryDirectory() as folder:
            check(binary, folder)
            print("%s: right" % check.__name__, flush=True)


if __name__ == "__main__":
    main()
