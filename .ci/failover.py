"""Two servers of this project over three PostgreSQL under Patroni, under load, while a seeded script of faults takes
machines away. After each fault nothing that was answered may be missing, and nothing may have happened twice.

    .ci/failover                              # 20 faults
    .ci/failover --faults 5 --seed 7          # others
    .ci/failover --script senders,cancel      # these, in this order
    .ci/failover --asynchronous               # must lose answered writes: the test can see a loss
    .ci/failover --without-guard              # must lose answered writes when waiting commits are cancelled

SUBSCRIPTION_TEST_SERVER names another program than target/debug/subscription-http.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict

import failover_histories
from failover_load import WEBHOOK_TYPE, Api, Load, digest
from failover_machines import PROGRAM, ROOT, Cluster, Server, end_by_signal, signal_all, temporary_folder, until

# Patroni's time to live of its lock, and the time in which it must be over.
TTL = 20
RESUMED_WITHIN = TTL + 10
FAULTS = {
    "kill": "the primary and its Patroni are killed",
    "freeze": "the primary freezes for 35 s, and continues",
    "senders": "its log senders stop, then it is killed",
    "standby": "the synchronous stand-by is killed",
    "restart": "the primary is restarted",
    "switchover": "another node is made the primary",
    "cancel": "senders stop, waiting commits are cancelled, it is killed",
    "etcd": "etcd is gone for 30 s",
    "leader": "our leader is killed, and started again",
    "pause": "our leader stops for 20 s, and continues",
}


class Lost(Exception):
    """A check that failed, with what it found."""

    def __init__(self, check, found):
        self.check = check
        super().__init__(f"{check}: " + "; ".join(str(it) for it in found[:5]) + f" ({len(found)} in all)")


class Run:
    """A cluster, two servers and their load, which faults are done to and checks are made on."""

    def __init__(self, folder, seed, program):
        self.rng = random.Random(f"{seed}/faults")
        self.cluster = Cluster(folder)
        self.servers = [Server(f"server-{name}", folder, self.cluster.url, program) for name in ("one", "two")]
        self.load = Load([server.port for server in self.servers], seed)
        self.checked_feed = 0

    def start(self, is_synchronous):
        self.cluster.start()
        if not is_synchronous:
            self.cluster.configure({"synchronous_mode": False, "synchronous_mode_strict": False})
            until(lambda: not any(row[0] for row in self.cluster.sql("SHOW synchronous_standby_names")), "asynchronous")
        self.is_synchronous = is_synchronous
        for server in self.servers:
            server.start()
        self.load.start()

    def stop(self):
        self.load.is_stopping.set()
        for server in self.servers:
            server.kill()
        self.cluster.stop()

    def is_whole(self):
        return self.cluster.is_whole(self.is_synchronous)

    # The faults. Each returns once it is done to the machines; what was killed is running again, or starts.

    def fault(self, name):
        getattr(self, f"_{name}")()

    def _kill(self):
        self._replace(self.cluster.primary())

    def _replace(self, primary):
        """Kills the primary, waits until another node is one, and starts the killed node again."""
        primary.kill()
        until(lambda: self._has_another(primary), "a new primary")
        primary.start()

    def _has_another(self, primary):
        members = self.cluster.members()
        return any(it["role"] == "leader" and it["state"] == "running" and it["name"] != primary.name
                   for it in members.values())

    def _freeze(self):
        primary = self.cluster.primary()
        primary.freeze()
        time.sleep(35)
        primary.thaw()

    def _senders(self):
        primary = self.cluster.primary()
        signal_all(primary.senders(), signal.SIGSTOP)
        time.sleep(self.rng.uniform(1.5, 3))
        self._replace(primary)

    def _standby(self):
        standby = self.cluster.standby()
        standby.kill()
        killed = time.monotonic()
        until(lambda: self.load.failure or self.load.written_since(killed), "the other stand-by confirms writes")
        standby.start()

    def _restart(self):
        primary = self.cluster.primary()
        response = self.cluster.ask(primary, "/restart", {})
        assert response is not None and response[0] == 200, response

    def _switchover(self):
        names = {"leader": self.cluster.primary().name, "candidate": self.cluster.standby().name}
        response = self.cluster.ask(self.cluster.nodes[names["leader"]], "/switchover", names)
        assert response is not None and response[0] == 200, response

    def _cancel(self):
        """An operator cancels every commit that waits for a stand-by for longer than 1.2 seconds."""
        primary = self.cluster.primary()
        self.load.pause_readers()
        signal_all(primary.senders(), signal.SIGSTOP)
        cancelled = 0
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            rows = self.cluster.sql(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                " AND query_start < clock_timestamp() - interval '1200 ms'", node=primary)
            cancelled += int(rows[0][0])
            time.sleep(0.1)
        assert cancelled > 0, "no commit was waiting"
        self._replace(primary)
        self.load.continue_readers()

    def _etcd(self):
        if self.rng.random() < 0.5:
            self.cluster.etcd.freeze()
            time.sleep(30)
            self.cluster.etcd.thaw()
        else:
            self.cluster.etcd.kill()
            time.sleep(30)
            self.cluster.start_etcd()

    def _our_leader(self):
        return until(lambda: next((server for server in self.servers if server.leads()), None), "our leader")

    def _leader(self):
        leader = self._our_leader()
        leader.kill()
        other = next(server for server in self.servers if server is not leader)
        until(other.leads, "the other instance leads")
        leader.start(is_awaited=False)

    def _pause(self):
        leader = self._our_leader()
        leader.freeze()
        time.sleep(20)
        leader.thaw()

    def recover(self):
        """Waits until writes are answered, the cluster is whole, and one instance leads. Returns the seconds from the
        first write to the one leader."""
        begun = time.monotonic()
        until(lambda: self.load.failure or self.load.written_since(begun), "writes are answered")
        written = time.monotonic()
        until(lambda: sum(server.metric("clock_leads") or 0 for server in self.servers) == 1, "one leader")
        led = time.monotonic() - written
        until(self.is_whole, "the cluster is whole")
        until(lambda: all(server.is_ready() for server in self.servers), "both servers are ready")
        until(lambda: sum(server.metric("clock_leads") or 0 for server in self.servers) == 1, "one leader")
        return led

    def longest_gap(self, begun):
        moments = [begun, *(it for it in list(self.load.written_at) if it > begun), time.monotonic()]
        return max(later - earlier for earlier, later in zip(moments, moments[1:]))

    # The checks.

    def check(self):
        if self.load.failure is not None:
            raise self.load.failure
        self.nothing_answered_is_lost()
        self.no_period_twice()
        self.the_feed_is_one_history()
        self.versions_never_go_back()

    def nothing_answered_is_lost(self):
        """Every answered write is there, at its version or a later one, and every order is there once."""
        check = "nothing_answered_is_lost"
        with self.load.lock:
            answered = dict(self.load.answered)
            orders = dict(self.load.orders)
        rows = self.cluster.sql("SELECT id, version FROM subscriptions UNION ALL SELECT id, version FROM payments")
        stored = {row[0]: int(row[1]) for row in rows}
        lost = [f"{record} version {version}, stored: {stored.get(record)}" for record, version in answered.items()
                if stored.get(record, 0) < version]
        if lost:
            raise Lost(check, lost)
        rows = self.cluster.sql("SELECT metadata::json ->> 'order', id FROM subscriptions WHERE managed_by = 'clock'")
        subscriptions = defaultdict(list)
        for order, subscription in rows:
            subscriptions[order].append(subscription)
        wrong = [f"order {order} made {made}" for order, made in subscriptions.items() if len(made) > 1]
        wrong += [f"order {order} made {subscriptions.get(order)}, answered: {made}" for order, made in orders.items()
                  if subscriptions.get(order) != [made]]
        if wrong:
            raise Lost(check, wrong)

    def no_period_twice(self):
        """No period has two payments, none lacks its payment, and nobody was charged twice."""
        check = "no_period_twice"
        charged = [f"{key} charged {sorted(payments)}" for key, payments in list(self.load.gateway.charges.items())
                   if len(payments) > 1]
        twice = self.cluster.sql(
            "SELECT subscription_id, whole_period, count(*) FROM payments WHERE whole_period IS NOT NULL"
            " AND status <> 'canceled' GROUP BY 1, 2 HAVING count(*) > 1")
        # The period in which a subscription was brought along counts as paid.
        missing = self.cluster.sql(
            "SELECT id, began FROM (SELECT *, (billing::json ->> 'current_period_start')::timestamptz AS began"
            " FROM subscriptions WHERE managed_by = 'clock') AS billed"
            " WHERE NOT (metadata::json ->> 'brought' = 'yes' AND began = starts_at) AND NOT EXISTS (SELECT"
            " FROM payments WHERE subscription_id = billed.id AND whole_period = began AND status <> 'canceled')")
        if charged or twice or missing:
            raise Lost(check, charged + twice + [["no payment", *row] for row in missing])

    def the_feed_is_one_history(self, after=None):
        """The feed, read again, is what its reader saw: nothing is missing, came in between or changed."""
        check = "the_feed_is_one_history"
        if self.load.feed_faults:
            raise Lost(check, self.load.feed_faults)
        after = self.checked_feed if after is None else after
        end = self.load.feed_position
        api = Api([server.port for server in self.servers], random.Random(end))
        again, position = {}, after
        while position < end:
            status, page = api.call("GET", f"/events?after={position}&limit=200")
            if status != 200:
                time.sleep(0.2)
                continue
            again |= {event["sequence"]: digest(event) for event in page["data"] if event["sequence"] <= end}
            position = page["next_after"]
        seen = {sequence: event for sequence, event in list(self.load.feed.items()) if after < sequence <= end}
        different = [f"sequence {sequence}: read {seen.get(sequence)}, again {again.get(sequence)}"
                     for sequence in sorted(seen.keys() | again.keys()) if seen.get(sequence) != again.get(sequence)]
        if different:
            raise Lost(check, different)
        self.checked_feed = end
        return again

    def versions_never_go_back(self):
        found = [f"{record}: {fault}" for record, requests in list(self.load.histories.items())
                 for fault in failover_histories.faults(list(requests))]
        if found:
            raise Lost("versions_never_go_back", found)

    def finish(self):
        """The load ends; then all that was due is done, and the whole history is compared."""
        self.load.stop()
        due = "SELECT count(*) FROM subscriptions WHERE next_action_at < now()"
        until(lambda: self.cluster.sql(due) == [["0"]], "everything that was due is done")
        self.check()
        events = self.the_feed_is_one_history(after=0)
        sent = {event[0] for sequence, event in events.items()
                if event[1] == WEBHOOK_TYPE and sequence > self.load.webhooks_after}
        until(lambda: sent <= self.load.delivered, f"{len(sent)} webhooks are delivered")
        for server in self.servers:
            assert "panicked" not in server.log.read_text(), server.log
        return len(sent)


def without_guard():
    """The committed program, without the confirmation of slow commits. It is built once for each commit, and kept."""
    built_from = ["Cargo.lock", "subscription-core/src", "subscription-core/migrations", "subscription-http/src"]
    changed = ["git", "log", "-1", "--format=%h", "--", *built_from]
    commit = subprocess.check_output(changed, cwd=ROOT, text=True).strip()
    folder = ROOT / "target/without-guard" / commit
    program = folder / "subscription-http"
    if program.exists():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    sources = folder / "sources"
    sources.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract", "--directory", sources], input=archive, check=True)
    file = sources / "subscription-core/src/store/sql/postgres/commits.rs"
    guard, none = "const SLOW: Duration = Duration::from_secs(1);", "const SLOW: Duration = Duration::MAX;"
    text = file.read_text()
    assert text.count(guard) == 1, f"{file} has another guard"
    file.write_text(text.replace(guard, none))
    cargo = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--locked", "-p", "subscription-http"]
    subprocess.run([*cargo, "--target-dir", folder / "target"], cwd=sources, check=True)
    shutil.move(folder / "target/debug/subscription-http", program)
    shutil.rmtree(folder / "target")
    shutil.rmtree(sources)
    return program


def script_of(arguments, rng):
    """The faults, in order: each kind once in random order, then again."""
    if arguments.script:
        return arguments.script.split(",")
    if arguments.asynchronous:
        return ["senders"] * 3
    if arguments.without_guard:
        return ["cancel"] * 3
    script = []
    while len(script) < arguments.faults:
        script += rng.sample(sorted(FAULTS), len(FAULTS))
    return script[: arguments.faults]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--script")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--without-guard", action="store_true")
    arguments = parser.parse_args()

    end_by_signal()
    failover_histories.self_test()
    print("histories made by hand: sound ones are accepted, wrong ones are refused")
    script = script_of(arguments, random.Random(f"{arguments.seed}/script"))
    unknown = set(script) - FAULTS.keys()
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    must_lose = arguments.asynchronous or arguments.without_guard
    program = without_guard() if arguments.without_guard else PROGRAM
    folder = temporary_folder()
    print(f"{len(script)} faults, seed {arguments.seed}, in {folder}", flush=True)
    run = Run(folder, arguments.seed, program)
    try:
        run.start(is_synchronous=not arguments.asynchronous)
        print("| fault | answered writes | longest time without a write | first write to one leader | checks |")
        print("| --- | ---: | ---: | ---: | --- |", flush=True)
        slow = 0
        for name in script:
            time.sleep(run.rng.uniform(3, 8))
            begun = time.monotonic()
            run.fault(name)
            led = run.recover()
            gap = run.longest_gap(begun)
            slow += gap > RESUMED_WITHIN
            row = f"| {FAULTS[name]} | {run.load.answered_count:,} | {gap:.1f} s | {led:.1f} s |"
            try:
                run.check()
            except Lost as lost:
                print(f"{row} {lost} |", flush=True)
                raise
            print(f"{row} hold |", flush=True)
        webhooks = run.finish()
        print(f"{len(run.load.feed):,} events, {webhooks:,} webhooks, {len(run.load.gateway.charges):,} charges, "
              f"{sum(map(len, run.load.histories.values())):,} requests in {len(run.load.histories):,} histories")
        print(f"{slow} of {len(script)} faults took longer than {RESUMED_WITHIN} s")
        print("refused:", dict(run.load.refused))
    except Lost as lost:
        if must_lose and lost.check == "nothing_answered_is_lost":
            print("lost, as it must: the test sees it")
            run.stop()
            shutil.rmtree(folder)
            return 0
        print(f"the logs are in {folder}", file=sys.stderr)
        raise
    except BaseException:
        print(f"the logs are in {folder}", file=sys.stderr)
        raise
    finally:
        run.stop()
    shutil.rmtree(folder)
    if must_lose:
        print("nothing was lost, but it must be: the test is blind", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
