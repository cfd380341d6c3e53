#!/usr/bin/env python3
"""A worker for durable tasks: an MCP server of revision 2026-07-28 over stdio
with one tool, append_entry, that adds a line to a ledger. Nothing but the
standard library is used.

What makes it a worker that a durable task can be routed to:

- it speaks tasks: every call becomes one, and tasks/get and tasks/cancel work;
- it echoes the execution envelope, as it came, in the CreateTaskResult and in
  every answer to tasks/get;
- it writes the envelope's identity down before it answers, and gives the task
  that there is to whoever sends that identity again;
- it writes down that the effect begins before it begins, so that after a crash
  it can tell what was never begun from what cannot be known;
- it keeps the limits of the submission itself: nobody else does.

    python3 worker.py --state DIR
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone

REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
ENVELOPE = "penstock/taskExecution"  # dev.gaugemesh/taskExecution where the document says spelling: gaugemesh

TOOL = {
    "name": "append_entry",
    "description": "Append a line to the ledger.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 200},
            "seconds": {"type": "number", "minimum": 0, "maximum": 30, "description": "To think first"},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False},
}


class Refusal(Exception):
    """An answer that says that nothing was begun."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def sync_folder(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """The records of tasks, one file each."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def write(self, record):
        handle, name = tempfile.mkstemp(dir=self.folder, prefix="new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                json.dump(record, f)
                f.flush()
                os.fsync(f.fileno())
            os.replace(name, os.path.join(self.folder, record["taskId"] + ".json"))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
        sync_folder(self.folder)

    def all(self):
        for name in os.listdir(self.folder):
            if name.endswith(".json"):  # and not one that was being written
                with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                    yield json.load(f)


class Worker:
    """Does the tasks. Whoever changes a record writes it down first."""

    def __init__(self, state):
        self.journal = Journal(os.path.join(state, "tasks"))
        self.ledger = os.path.join(state, "ledger.txt")
        self.lock = threading.RLock()  # guards what follows
        self.tasks = {}
        self.stops = {}
        for record in self.journal.all():
            self.tasks[record["taskId"]] = record
            if record["status"] != "working":
                continue
            if record["acting"]:  # it may have happened
                self.change(record, "failed", "the worker ended while it wrote: look at the ledger before you submit it again")
            else:  # it was never begun
                self.start(record)

    def call(self, params):
        if params.get("name") != "append_entry":
            raise Refusal(-32602, "unknown tool")
        arguments = params.get("arguments") or {}
        text, seconds = arguments.get("text"), arguments.get("seconds", 0)
        if not isinstance(text, str) or not 0 < len(text) <= 200:
            raise Refusal(-32602, "text is a string of 1 to 200 characters")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 30:
            raise Refusal(-32602, "seconds is a number from 0 to 30")
        envelope = params["_meta"].get(ENVELOPE)
        try:
            public, request, task = envelope["publicTaskId"], envelope["requestSha256"], envelope["submission"]["task"]
            created = time.time()
            until = min(task["deadlineUnixMs"] / 1000, created + task["limits"]["maxRuntimeMs"] / 1000)
            ttl = task["retentionMs"]
        except (KeyError, TypeError):
            raise Refusal(-32602, "only durable tasks are taken: there is no " + ENVELOPE) from None
        # The id follows from the identity of the submission: the same one is the
        # same task, in whatever process it is asked for.
        task_id = "ledger-" + hashlib.sha256(public.encode()).hexdigest()[:32]
        with self.lock:
            record = self.tasks.get(task_id)
            if record is not None:  # an answer was lost; nothing is done again
                if record["envelope"]["requestSha256"] != request:
                    raise Refusal(-32602, "this id is that of another request")
                return self.view(record, "task")
            record = {
                "taskId": task_id, "envelope": envelope, "text": text, "seconds": seconds, "status": "working", "acting": False,
                "created": created, "changed": created, "ttlMs": ttl, "until": until, "message": "",
            }
            self.journal.write(record)
            self.tasks[task_id] = record
            self.start(record)
            return self.view(record, "task")

    def start(self, record):
        """Has a task done beside the requests."""
        stop = self.stops[record["taskId"]] = threading.Event()
        threading.Thread(target=self.run, args=(record, stop), daemon=True).start()

    def run(self, record, stop):
        left = record["until"] - time.time()
        if stop.wait(max(0, min(record["seconds"], left))):
            return
        if record["seconds"] > left:
            self.end(record, "failed", "its time was over before it began")
            return
        try:
            self.act(record)
        except OSError as e:
            self.end(record, "failed", str(e))
        else:
            self.end(record, "completed", "appended")

    def act(self, record):
        """The effect. That it begins is written down before it does."""
        with self.lock:
            if record["status"] != "working":
                return
            record["acting"] = True
            self.journal.write(record)
        with open(self.ledger, "a", encoding="utf-8") as f:
            f.write(json.dumps(record["text"]) + "\n")
            f.flush()
            os.fsync(f.fileno())

    def end(self, record, status, message):
        with self.lock:
            if record["status"] == "working":
                self.change(record, status, message)

    def cancel(self, record):
        """Ends a task that has not begun its effect. The acknowledgement says
        that it was heard, and no more."""
        with self.lock:
            if record["status"] == "working" and not record["acting"]:
                self.change(record, "cancelled", "cancelled before it began")
                self.stops[record["taskId"]].set()

    def change(self, record, status, message):
        """Writes another status down, and then has it."""
        after = dict(record, status=status, message=message, changed=time.time())
        self.journal.write(after)
        record.update(after)

    def view(self, record, result_type):
        """A task as its client sees it, with the envelope as it came."""
        out = {
            "resultType": result_type, "taskId": record["taskId"], "status": record["status"],
            "createdAt": stamp(record["created"]), "lastUpdatedAt": stamp(record["changed"]),
            "ttlMs": record["ttlMs"], "pollIntervalMs": 200, "_meta": {ENVELOPE: record["envelope"]},
        }
        if result_type != "task":  # what came of it is for tasks/get
            if record["status"] == "completed":
                out["result"] = {"resultType": "complete", "content": [{"type": "text", "text": record["message"]}]}
            elif record["status"] == "failed":
                out["error"] = {"code": -32603, "message": record["message"]}
        return out

    def answer(self, method, params):
        meta = params.get("_meta") or {}
        version = meta.get(META + "protocolVersion")
        if version != REVISION:
            raise Refusal(-32022, "this server speaks " + REVISION, {"supported": [REVISION], "requested": version})
        whole = {"resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
        whole["_meta"] = {META + "serverInfo": {"name": "ledger-python", "version": "1.0.0"}}
        if method == "server/discover":
            return dict(whole, supportedVersions=[REVISION], capabilities={"tools": {}, "extensions": {TASKS: {}}})
        if method == "tools/list":
            return dict(whole, tools=[TOOL])
        if method not in ("tools/call", "tasks/get", "tasks/cancel"):
            raise Refusal(-32601, "unknown method")
        declared = (meta.get(META + "clientCapabilities") or {}).get("extensions") or {}
        if TASKS not in declared:
            raise Refusal(-32021, "every call here is a task", {"requiredCapabilities": {"extensions": {TASKS: {}}}})
        if method == "tools/call":
            return self.call(params)
        with self.lock:
            record = self.tasks.get(params.get("taskId"))
            if record is None:
                raise Refusal(-32602, "Task not found")
            if method == "tasks/get":
                return self.view(record, "complete")
        self.cancel(record)
        return {"resultType": "complete"}


def stamp(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", required=True, help="folder for the ledger and what is known of tasks")
    worker = Worker(parser.parse_args().state)
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        out = {"jsonrpc": "2.0", "id": None}
        try:
            message = json.loads(line)
            if "id" not in message:
                continue  # a notification
            out["id"] = message["id"]
            out["result"] = worker.answer(message["method"], message.get("params") or {})
        except Refusal as e:
            out["error"] = e.error
        except Exception as e:  # whatever it was, it is no refusal
            print(repr(e), file=sys.stderr)
            out["error"] = {"code": -32603, "message": "internal error"}
        sys.stdout.buffer.write(json.dumps(out).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
