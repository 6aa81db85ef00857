"""PostgreSQL under Patroni, etcd, HAProxy and servers of this project, as processes on free ports of this machine, with
the files of packaging/. Used by failover.py and failover_restore.py."""

import base64
import http.client
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
PROGRAM = Path(os.environ.get("SUBSCRIPTION_TEST_SERVER", ROOT / "target/debug/subscription-http")).resolve()
# The Python package of Patroni. Without it, the system's own is started.
PATRONI = os.environ.get("SUBSCRIPTION_TEST_PATRONI")
# PostgreSQL and Patroni refuse to run as root.
ACCOUNT = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
# Long, because other work may run on this machine.
PATIENCE = 180
PASSWORDS = {"postgres": "superuser", "replicator": "replication", "billing": "billing"}
HOST = "127.0.0.1"
DATABASE = "billing"


def free_ports(count):
    """Ports below those of outgoing connections, so that a process that is started again gets its port back."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def binaries():
    """The folder of the newest PostgreSQL."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


def until(is_done, what, patience=PATIENCE, pause=0.2):
    """Waits until the call returns something true, and returns it."""
    deadline = time.monotonic() + patience
    while not (result := is_done()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {patience} s")
        time.sleep(pause)
    return result


def fetch(port, path, method="GET", body=None, headers=None, password=None, timeout=5):
    """The status and the text of a response, or None if there is no response."""
    headers = {"content-type": "application/json", **(headers or {})}
    if password is not None:
        headers["authorization"] = "Basic " + base64.b64encode(f"patroni:{password}".encode()).decode()
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def processes():
    """The parent, the folder and the command of each process of this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text()
            state, parent = status[status.rindex(")") + 2 :].split()[:2]
            if state != "Z":
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = (int(parent), os.readlink(entry / "cwd"), command)
        except OSError:
            continue
    return found


def descendants(found, roots):
    family = set(roots)
    grown = True
    while grown:
        more = {pid for pid, (parent, _, _) in found.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return family & found.keys()


class Process:
    """A program that can be started again with the same arguments. Its output goes to a file."""

    def __init__(self, name, command, folder, environment=None, account=None):
        self.name = name
        self.command = [str(part) for part in command]
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.environment = {**os.environ, **(environment or {})}
        self.account = account if os.geteuid() == 0 else None
        self.running = None

    def start(self):
        user = {"user": self.account, "group": self.account, "extra_groups": []} if self.account else {}
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **user,
            )

    def pids(self):
        return set() if self.running is None else descendants(processes(), {self.running.pid})

    def freeze(self):
        signal_all(self.pids(), signal.SIGSTOP)

    def thaw(self):
        signal_all(self.pids(), signal.SIGCONT)

    def kill(self):
        """Ends all its processes at once, as a power cut does."""
        until(self._is_dead, f"{self.name} is killed", pause=0.05)
        if self.running is not None:
            self.running.wait()
        self.running = None

    def _is_dead(self):
        pids = self.pids()
        signal_all(pids, signal.SIGKILL)
        return not pids


class Node(Process):
    """A PostgreSQL under Patroni."""

    def __init__(self, name, folder, etcd_port):
        self.port, self.api_port = free_ports(2)
        self.data = folder / name
        environment = {
            "PATRONI_NAME": name,
            "PATRONI_RESTAPI_LISTEN": f"{HOST}:{self.api_port}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"{HOST}:{self.api_port}",
            "PATRONI_RESTAPI_USERNAME": "patroni",
            "PATRONI_RESTAPI_PASSWORD": PASSWORDS["postgres"],
            "PATRONI_ETCD3_HOSTS": f'"{HOST}:{etcd_port}"',
            "PATRONI_POSTGRESQL_LISTEN": f"{HOST}:{self.port}",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"{HOST}:{self.port}",
            "PATRONI_POSTGRESQL_DATA_DIR": str(self.data),
            "PATRONI_POSTGRESQL_BIN_DIR": str(binaries()),
            "PATRONI_POSTGRESQL_PGPASS": str(folder / f"{name}.pgpass"),
            "PATRONI_SUPERUSER_USERNAME": "postgres",
            "PATRONI_SUPERUSER_PASSWORD": PASSWORDS["postgres"],
            "PATRONI_REPLICATION_USERNAME": "replicator",
            "PATRONI_REPLICATION_PASSWORD": PASSWORDS["replicator"],
            "HOME": str(folder),
        }
        # Copies: the account may not be able to read the sources.
        settings = shutil.copy(PACKAGING / "patroni.yml", folder)
        command = ["patroni", settings]
        if PATRONI:
            package = shutil.copytree(PATRONI, folder / "patroni", dirs_exist_ok=True)
            environment["PYTHONPATH"] = str(package)
            # The python of Debian, which has the packages that Patroni imports.
            command = ["/usr/bin/python3", "-m", *command]
        super().__init__(name, command, folder, environment, ACCOUNT)

    def _postgres(self, found):
        # The processes of PostgreSQL have its folder as theirs, also when Patroni is gone.
        return {pid for pid, (_, folder, _) in found.items() if folder == str(self.data)}

    def pids(self):
        found = processes()
        return descendants(found, self._postgres(found)) | super().pids()

    def senders(self):
        """The processes that send the log to stand-bys."""
        found = processes()
        return {pid for pid in self._postgres(found) if "walsender" in found[pid][2]}


class Cluster:
    """Three nodes, one etcd, and HAProxy, which leads to the primary."""

    def __init__(self, folder):
        self.folder = folder
        etcd_port, peer_port, self.port = free_ports(3)
        client_url, peer_url = (f"http://{HOST}:{port}" for port in (etcd_port, peer_port))
        self.etcd_port = etcd_port
        self.etcd = Process(
            "etcd",
            ["etcd", "--data-dir", folder / "etcd", "--listen-client-urls", client_url, "--advertise-client-urls",
             client_url, "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
             "--initial-cluster", f"default={peer_url}", "--log-level", "warn"],
            folder,
            account=ACCOUNT,
        )
        self.nodes = {name: Node(name, folder, etcd_port) for name in ("one", "two", "three")}
        addresses = {"LISTEN": f"{HOST}:{self.port}"}
        for name, node in self.nodes.items():
            addresses[f"NODE_{name.upper()}"] = f"{HOST}:{node.port}"
            addresses[f"PATRONI_{name.upper()}"] = str(node.api_port)
        self.proxy = Process("haproxy", ["haproxy", "-f", PACKAGING / "haproxy-postgres.cfg"], folder, addresses)
        self.url = f"postgres://billing:{PASSWORDS['billing']}@{HOST}:{self.port}/{DATABASE}"

    def start(self):
        self.start_etcd()
        # One after the other, so that the first one makes the cluster.
        for node in self.nodes.values():
            node.start()
            until(lambda: self.members().get(node.name, {}).get("state") in ("running", "streaming"), node.name)
        self.proxy.start()
        until(self.is_whole, "a cluster of three with a synchronous stand-by")
        self.sql(f"CREATE ROLE billing LOGIN PASSWORD '{PASSWORDS['billing']}'", "postgres")
        self.sql(f"CREATE DATABASE {DATABASE} OWNER billing", "postgres")

    def start_etcd(self):
        self.etcd.start()
        until(lambda: (fetch(self.etcd_port, "/health") or [0])[0] == 200, "etcd")

    def stop(self):
        for process in (self.proxy, *self.nodes.values(), self.etcd):
            process.kill()

    def members(self):
        """The members as Patroni lists them, by name; of the first node that responds."""
        for node in self.nodes.values():
            response = fetch(node.api_port, "/cluster")
            if response is not None and response[0] == 200:
                return {member["name"]: member for member in json.loads(response[1])["members"]}
        return {}

    def _role(self, role):
        return next((self.nodes[name] for name, member in self.members().items() if member["role"] == role), None)

    def primary(self):
        return until(lambda: self._role("leader"), "a primary")

    def standby(self):
        """The synchronous stand-by, which is the only one that may become the primary."""
        return until(lambda: self._role("sync_standby"), "a synchronous stand-by")

    def is_whole(self, is_synchronous=True):
        members = self.members().values()
        roles = [member["role"] for member in members if member["state"] in ("running", "streaming")]
        is_ready = roles.count("leader") == 1 and len({member.get("timeline") for member in members}) == 1
        return is_ready and len(roles) == 3 and (not is_synchronous or "sync_standby" in roles)

    def configure(self, changes):
        """Changes Patroni's settings of the cluster."""
        response = fetch(self.primary().api_port, "/config", "PATCH", changes, password=PASSWORDS["postgres"])
        assert response is not None and response[0] == 200, response

    def ask(self, node, path, body):
        """Sends a request to a node's Patroni that changes something, and returns the response."""
        return fetch(node.api_port, path, "POST", body, password=PASSWORDS["postgres"], timeout=90)

    def sql(self, statement, database=DATABASE, node=None):
        """The rows of a statement on the primary, as lists of texts."""
        return psql((node or self.primary()).port, statement, database)


def psql(port, statement, database=DATABASE):
    environment = {**os.environ, "PGPASSWORD": PASSWORDS["postgres"], "PGCONNECT_TIMEOUT": "10"}
    command = ["psql", "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p", str(port), "-U", "postgres"]
    done = subprocess.run(
        [*command, "-d", database, "-c", statement], env=environment, capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(f"{statement}: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


class Server(Process):
    """A server of this project."""

    def __init__(self, name, folder, url, program=PROGRAM):
        (self.port,) = free_ports(1)
        settings = ["--users", "any", "--log", "warn", "--database", url]
        command = [program, "--listen", f"{HOST}:{self.port}", *settings]
        super().__init__(name, command, folder)

    def start(self, is_awaited=True):
        super().start()
        if is_awaited:
            until(lambda: self.is_ready() or self.running.poll() is not None, f"{self.name} is ready")
            assert self.running.poll() is None, self.log.read_text()

    def is_ready(self):
        response = fetch(self.port, "/health/ready")
        return response is not None and response[0] == 200

    def metric(self, name):
        """The value of a metric without labels, or None if the server does not respond."""
        response = fetch(self.port, "/metrics")
        if response is None or response[0] != 200:
            return None
        lines = (line.split() for line in response[1].splitlines())
        return next((float(words[1]) for words in lines if words[:1] == [f"subscription_http_{name}"]), None)

    def leads(self):
        return self.metric("clock_leads") == 1


def end_by_signal():
    """Lets SIGTERM end this program as an error does, so that it kills what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


def temporary_folder():
    """A folder that the account of PostgreSQL can use too."""
    folder = Path(tempfile.mkdtemp(prefix="failover-"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, ACCOUNT, ACCOUNT)
    return folder
