-- +goose Up
-- Times are Unix milliseconds here, as in the documents.
CREATE TABLE routes (
	id             TEXT COLLATE "C" PRIMARY KEY,
	principal      BYTEA NOT NULL,
	tenant         BYTEA NOT NULL,
	key            BYTEA NOT NULL, -- the caller's
	request_digest TEXT NOT NULL,
	server         TEXT NOT NULL,
	upstream       TEXT NOT NULL,
	upstream_task  BYTEA NOT NULL, -- empty until it is known
	phase          TEXT NOT NULL CHECK (phase IN ('prepared', 'dispatching', 'routed', 'cancel_requested', 'reconciliation_required', 'terminal')),
	created        BIGINT NOT NULL CHECK (created >= 0),
	updated        BIGINT NOT NULL CHECK (updated >= 0),
	expires        BIGINT NOT NULL CHECK (expires >= 0),
	due            BIGINT NOT NULL CHECK (due >= 0), -- 0: never
	version        BIGINT NOT NULL CHECK (version >= 0),
	integrity      TEXT NOT NULL,
	document       BYTEA NOT NULL,
	seat           BIGINT NOT NULL, -- where it is counted among all
	caller_seat    BIGINT NOT NULL, -- and among those of its caller
	intents        BIGINT NOT NULL CHECK (intents >= 0), -- rows of route_updates
	UNIQUE (principal, tenant, key)
);
CREATE INDEX routes_of_caller ON routes (principal, tenant, caller_seat, expires);
CREATE INDEX routes_of_upstream ON routes (upstream, created, id);
CREATE INDEX routes_by_phase ON routes (phase, created, id);
CREATE INDEX routes_by_age ON routes (created, id);
CREATE INDEX routes_by_expiry ON routes (expires, id);
CREATE INDEX routes_by_due ON routes (due, id) WHERE due > 0;

-- The journal: one row for each transition, and one for the beginning.
CREATE TABLE route_events (
	route      TEXT COLLATE "C" NOT NULL,
	version    BIGINT NOT NULL CHECK (version >= 0),
	from_phase TEXT NOT NULL,
	to_phase   TEXT NOT NULL,
	reason     BYTEA NOT NULL,
	actor      TEXT NOT NULL,
	at         BIGINT NOT NULL CHECK (at >= 0),
	previous   TEXT NOT NULL,
	digest     TEXT NOT NULL,
	PRIMARY KEY (route, version)
);

CREATE TABLE route_updates (
	route  TEXT COLLATE "C" NOT NULL,
	digest TEXT COLLATE "C" NOT NULL, -- of the answer, which is not kept
	seq    BIGINT NOT NULL CHECK (seq > 0),
	state  TEXT NOT NULL CHECK (state IN ('prepared', 'sent', 'acked', 'unknown')),
	at     BIGINT NOT NULL CHECK (at >= 0),
	PRIMARY KEY (route, digest)
);

-- Until when, by the database's clock, an instance is taken to live.
CREATE TABLE route_instances (
	instance TEXT COLLATE "C" PRIMARY KEY,
	until    BIGINT NOT NULL
);

CREATE TABLE leases (
	id          TEXT COLLATE "C" PRIMARY KEY,
	principal   BYTEA NOT NULL,
	tenant      BYTEA NOT NULL,
	expires     BIGINT NOT NULL CHECK (expires >= 0),
	digest      TEXT NOT NULL,
	document    BYTEA NOT NULL,
	seat        BIGINT NOT NULL,
	caller_seat BIGINT NOT NULL
);
CREATE INDEX leases_of_caller ON leases (principal, tenant, caller_seat, expires);
CREATE INDEX leases_of_seat ON leases (seat, expires);
CREATE INDEX leases_by_expiry ON leases (expires, id);

-- How many rows of a kind there are. The count is spread over seats, so that those who count at once need not wait for each other.
CREATE TABLE seats (
	kind TEXT NOT NULL,
	seat BIGINT NOT NULL,
	n    BIGINT NOT NULL,
	PRIMARY KEY (kind, seat)
);
