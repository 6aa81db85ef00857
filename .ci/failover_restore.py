"""A database is restored to a moment between two renewals, as docs/failover.md describes: nobody is charged twice, and
no period is free. The backup is a pg_basebackup with an archive of the log.

Called by .ci/failover. Its second half leaves the comparison with the gateway out, and must charge somebody twice."""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from datetime import datetime, timedelta, timezone

from failover_machines import ACCOUNT, DATABASE, HOST, PROGRAM, Process, Server, binaries, end_by_signal, fetch
from failover_machines import free_ports, psql, temporary_folder, until

SUBSCRIPTIONS = 30
ARCHIVE = "archive"


class Database(Process):
    """A PostgreSQL without Patroni, in a folder of the test."""

    def __init__(self, name, folder):
        (self.port,) = free_ports(1)
        self.data = folder / name
        options = ["-h", HOST, "-p", self.port, "-k", folder]
        super().__init__(name, [binaries() / "postgres", "-D", self.data, *options], folder, account=ACCOUNT)
        self.url = f"postgres://postgres@{HOST}:{self.port}/{DATABASE}"

    def start(self):
        super().start()
        until(self._accepts_writes, f"{self.name} accepts writes")

    def _accepts_writes(self):
        try:
            return self.sql("SELECT pg_is_in_recovery()", "postgres") == [["f"]]
        except RuntimeError:
            return False

    def sql(self, statement, database=DATABASE):
        return psql(self.port, statement, database)


def as_account(*command):
    """Runs a program of PostgreSQL, which must not be root."""
    user = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, **user)


def call(server, method, path, body=None, headers=None):
    response = fetch(server.port, path, method, body, headers={"client-id": "restore", **(headers or {})}, timeout=30)
    assert response is not None, path
    status, text = response
    record = json.loads(text)
    assert status in (200, 201), (method, path, body, record)
    return record


class Gateway:
    """A payment gateway that has forgotten its keys: each charge is made. It stores what the collector sends along."""

    def __init__(self, charges=()):
        self.charges = list(charges)

    def collect(self, server, count=None):
        """Charges payments that are due, at most `count`, and reports them."""
        due = call(server, "GET", "/due-payments?limit=200")["data"]
        for payment in due[:count]:
            self.charges.append({name: payment[name] for name in
                                 ("charge_key", "subscription_id", "amount", "currency", "kind", "period_start")})
            report(server, payment)

    def charged_twice(self):
        return [key for key, count in Counter(charge["charge_key"] for charge in self.charges).items() if count > 1]


def report(server, payment):
    body = {"status": "succeeded"}
    call(server, "PUT", f"/subscription-payments/{payment['id']}", body, {"if-match": f'"{payment["version"]}"'})


def compare(server, gateway):
    """Reports each charge of the gateway that the restored service does not know of. Returns the numbers of charges
    whose payment waits, and whose payment does not exist yet."""
    due = {payment["charge_key"]: payment for payment in call(server, "GET", "/due-payments?limit=200")["data"]}
    waiting = absent = 0
    for charge in gateway.charges:
        known = call(server, "GET", f"/subscriptions/{charge['subscription_id']}/payments?limit=200")["data"]
        is_paid = any(it["charge_key"] == charge["charge_key"] and it["status"] == "succeeded" for it in known)
        if is_paid:
            continue
        if charge["charge_key"] in due:
            report(server, due[charge["charge_key"]])
            waiting += 1
        else:
            body = {name: charge[name] for name in ("subscription_id", "amount", "currency", "kind", "period_start")}
            call(server, "POST", "/subscription-payments", {**body, "status": "succeeded"})
            absent += 1
    return waiting, absent


def bring_along(server, plan, seconds):
    """Subscriptions from elsewhere that renew in so many seconds."""
    renews_at = (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()
    for _ in range(SUBSCRIPTIONS):
        call(server, "POST", "/subscriptions", {"user_id": str(uuid.uuid4()), "subscription_plan_id": plan,
                                                "status": "active", "renews_at": renews_at})


def payments(database):
    return int(database.sql("SELECT count(*) FROM payments")[0][0])


def restored(name, folder, moment):
    """The backup, with the archived log up to the moment."""
    shutil.copytree(folder / "base", folder / name)
    database = Database(name, folder)
    with (database.data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = 'cp {folder / ARCHIVE}/%f %p'\n")
        settings.write(f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\narchive_mode = off\n")
    (database.data / "recovery.signal").touch()
    if os.geteuid() == 0:
        as_root = [database.data, *database.data.rglob("*")]
        for path in as_root:
            shutil.chown(path, ACCOUNT, ACCOUNT)
    database.data.chmod(0o700)
    database.start()
    return database


def billing(database, *words):
    command = [PROGRAM, "--database", database.url, "billing", *words]
    return subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)


def resume(server, database, gateway):
    billing(database, "resume")
    until(lambda: database.sql("SELECT count(*) FROM subscriptions WHERE next_action_at < now()") == [["0"]],
          "everything that was due is done")
    while call(server, "GET", "/due-payments")["data"]:
        gateway.collect(server)


def run(folder, processes):
    primary = Database("primary", folder)
    as_account(binaries() / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "-D", primary.data)
    archive = folder / ARCHIVE
    archive.mkdir()
    if os.geteuid() == 0:
        shutil.chown(archive, ACCOUNT, ACCOUNT)
    with (primary.data / "postgresql.conf").open("a") as settings:
        settings.write(f"archive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n")
    processes.append(primary)
    primary.start()
    primary.sql(f"CREATE DATABASE {DATABASE}", "postgres")
    server = Server("server", folder, primary.url)
    processes.append(server)
    server.start()
    plan = {"name": "Pro", "slug": "pro", "price": "19.90", "currency": "EUR", "billing_cycle": "monthly"}
    plan = call(server, "POST", "/subscription-plans", plan)["id"]

    bring_along(server, plan, seconds=20)
    as_account(binaries() / "pg_basebackup", "-h", HOST, "-p", primary.port, "-U", "postgres", "--wal-method=none",
               "--checkpoint=fast", "-D", folder / "base")
    gateway = Gateway()
    until(lambda: payments(primary) == SUBSCRIPTIONS, "the first renewals")
    gateway.collect(server, SUBSCRIPTIONS // 2)
    bring_along(server, plan, seconds=15)
    moment = primary.sql("SELECT clock_timestamp()")[0][0]
    # After the moment the others pay, the second group renews, and pays.
    time.sleep(1)
    gateway.collect(server)
    until(lambda: payments(primary) == 2 * SUBSCRIPTIONS, "the second renewals")
    gateway.collect(server)
    assert len(gateway.charges) == 2 * SUBSCRIPTIONS and not gateway.charged_twice()
    server.kill()
    segment = primary.sql("SELECT pg_walfile_name(pg_switch_wal())")[0][0]
    until((archive / segment).exists, "the log is archived")
    primary.kill()

    for is_compared in (True, False):
        name = "compared" if is_compared else "not-compared"
        database = restored(name, folder, moment)
        processes.append(database)
        billing(database, "pause")
        server = Server(f"server-{name}", folder, database.url)
        processes.append(server)
        server.start()
        assert payments(database) == SUBSCRIPTIONS, "the second renewals are restored"
        again = Gateway(gateway.charges)
        time.sleep(5)
        assert payments(database) == SUBSCRIPTIONS, "it bills although it is paused"
        if is_compared:
            waiting, absent = compare(server, again)
            print(f"{SUBSCRIPTIONS // 2} charges were restored, {waiting} waited, {absent} had no payment")
            assert waiting == SUBSCRIPTIONS - SUBSCRIPTIONS // 2 and absent == SUBSCRIPTIONS
        resume(server, database, again)
        periods = database.sql("SELECT subscription_id, whole_period FROM payments WHERE status = 'succeeded'")
        assert len(periods) == len({tuple(row) for row in periods}) == 2 * SUBSCRIPTIONS, periods
        twice = again.charged_twice()
        print(f"{name} with the gateway: {len(again.charges)} charges, {len(twice)} periods charged twice")
        assert bool(twice) != is_compared, twice


def main():
    end_by_signal()
    folder = temporary_folder()
    processes = []
    try:
        run(folder, processes)
    except BaseException:
        print(f"the logs are in {folder}", file=sys.stderr)
        raise
    finally:
        for process in processes:
            process.kill()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
