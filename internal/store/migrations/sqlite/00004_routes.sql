-- +goose Up
-- Times are Unix milliseconds here, as in the documents.
CREATE TABLE routes (
	id             TEXT  PRIMARY KEY,
	principal      BLOB NOT NULL,
	tenant         BLOB NOT NULL,
	key            BLOB NOT NULL, -- the caller's
	request_digest TEXT NOT NULL,
	server         TEXT NOT NULL,
	upstream       TEXT NOT NULL,
	upstream_task  BLOB NOT NULL, -- empty until it is known
	phase          TEXT NOT NULL CHECK (phase IN ('prepared', 'dispatching', 'routed', 'cancel_requested', 'reconciliation_required', 'terminal')),
	created        INTEGER NOT NULL CHECK (created >= 0),
	updated        INTEGER NOT NULL CHECK (updated >= 0),
	expires        INTEGER NOT NULL CHECK (expires >= 0),
	due            INTEGER NOT NULL CHECK (due >= 0), -- 0: never
	version        INTEGER NOT NULL CHECK (version >= 0),
	integrity      TEXT NOT NULL,
	document       BLOB NOT NULL,
	seat           INTEGER NOT NULL, -- where it is counted among all
	caller_seat    INTEGER NOT NULL, -- and among those of its caller
	intents        INTEGER NOT NULL CHECK (intents >= 0), -- rows of route_updates
	UNIQUE (principal, tenant, key)
) STRICT;
CREATE INDEX routes_of_caller ON routes (principal, tenant, caller_seat, expires);
CREATE INDEX routes_of_upstream ON routes (upstream, created, id);
CREATE INDEX routes_by_phase ON routes (phase, created, id);
CREATE INDEX routes_by_age ON routes (created, id);
CREATE INDEX routes_by_expiry ON routes (expires, id);
CREATE INDEX routes_by_due ON routes (due, id) WHERE due > 0;

-- The journal: one row for each transition, and one for the beginning.
CREATE TABLE route_events (
	route      TEXT  NOT NULL,
	version    INTEGER NOT NULL CHECK (version >= 0),
	from_phase TEXT NOT NULL,
	to_phase   TEXT NOT NULL,
	reason     BLOB NOT NULL,
	actor      TEXT NOT NULL,
	at         INTEGER NOT NULL CHECK (at >= 0),
	previous   TEXT NOT NULL,
	digest     TEXT NOT NULL,
	PRIMARY KEY (route, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE route_updates (
	route  TEXT  NOT NULL,
	digest TEXT  NOT NULL, -- of the answer, which is not kept
	seq    INTEGER NOT NULL CHECK (seq > 0),
	state  TEXT NOT NULL CHECK (state IN ('prepared', 'sent', 'acked', 'unknown')),
	at     INTEGER NOT NULL CHECK (at >= 0),
	PRIMARY KEY (route, digest)
) STRICT, WITHOUT ROWID;

-- Until when, by the database's clock, an instance is taken to live.
CREATE TABLE route_instances (
	instance TEXT  PRIMARY KEY,
	until    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
	id          TEXT  PRIMARY KEY,
	principal   BLOB NOT NULL,
	tenant      BLOB NOT NULL,
	expires     INTEGER NOT NULL CHECK (expires >= 0),
	digest      TEXT NOT NULL,
	document    BLOB NOT NULL,
	seat        INTEGER NOT NULL,
	caller_seat INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_of_caller ON leases (principal, tenant, caller_seat, expires);
CREATE INDEX leases_of_seat ON leases (seat, expires);
CREATE INDEX leases_by_expiry ON leases (expires, id);

-- How many rows of a kind there are. The count is spread over seats, so that those who count at once need not wait for each other.
CREATE TABLE seats (
	kind TEXT NOT NULL,
	seat INTEGER NOT NULL,
	n    INTEGER NOT NULL,
	PRIMARY KEY (kind, seat)
) STRICT, WITHOUT ROWID;
