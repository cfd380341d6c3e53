-- +goose Up
CREATE TABLE sessions (
	id           TEXT    COLLATE "C" PRIMARY KEY,
	server       TEXT    NOT NULL,
	principal    BYTEA   NOT NULL,
	revision     TEXT    NOT NULL,
	capabilities BYTEA,
	client_info  BYTEA,
	log_level    TEXT    NOT NULL,
	generation   BIGINT  NOT NULL,
	created      BIGINT  NOT NULL, -- Unix nanoseconds, as every time here
	last_used    BIGINT  NOT NULL, -- behind the truth by at most a tenth of the idle time
	instance     TEXT    NOT NULL  -- the only instance that used it, or empty when several did
);
CREATE INDEX sessions_of_principal ON sessions (principal, last_used);
CREATE INDEX sessions_by_use ON sessions (last_used);

-- How many records a bound counts: scope is the kind of record, followed by the principal where it is the principal's.
CREATE TABLE counts (
	scope BYTEA   PRIMARY KEY,
	n     BIGINT  NOT NULL
);

CREATE TABLE sealing_keys (
	slot    BIGINT  PRIMARY KEY, -- the highest seals
	secret  BYTEA   NOT NULL,
	created BIGINT  NOT NULL
);

CREATE TABLE souths (
	key        BYTEA   PRIMARY KEY,
	server     TEXT    NOT NULL,
	upstream   TEXT    NOT NULL,
	north      TEXT    NOT NULL,
	id         BYTEA   NOT NULL, -- bytes of the upstream, which need not be text
	revision   TEXT    NOT NULL,
	instance   TEXT    NOT NULL,
	generation BIGINT  NOT NULL,
	created    BIGINT  NOT NULL,
	last_used  BIGINT  NOT NULL
);
CREATE INDEX souths_of_north ON souths (north, key);
CREATE INDEX souths_by_use ON souths (last_used);

CREATE TABLE claims (
	session    TEXT    COLLATE "C" PRIMARY KEY,
	owner      TEXT    NOT NULL,
	generation BIGINT  NOT NULL
);
