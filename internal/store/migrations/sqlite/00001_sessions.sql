-- +goose Up
CREATE TABLE sessions (
	id           TEXT    PRIMARY KEY,
	server       TEXT    NOT NULL,
	principal    BLOB    NOT NULL,
	revision     TEXT    NOT NULL,
	capabilities BLOB,
	client_info  BLOB,
	log_level    TEXT    NOT NULL,
	generation   INTEGER NOT NULL,
	created      INTEGER NOT NULL, -- Unix nanoseconds, as every time here
	last_used    INTEGER NOT NULL, -- behind the truth by at most a tenth of the idle time
	instance     TEXT    NOT NULL  -- the only instance that used it, or empty when several did
) STRICT;
CREATE INDEX sessions_of_principal ON sessions (principal, last_used);
CREATE INDEX sessions_by_use ON sessions (last_used);

-- How many records a bound counts: scope is the kind of record, followed by the principal where it is the principal's.
CREATE TABLE counts (
	scope BLOB    PRIMARY KEY,
	n     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sealing_keys (
	slot    INTEGER PRIMARY KEY, -- the highest seals
	secret  BLOB    NOT NULL,
	created INTEGER NOT NULL
) STRICT;

CREATE TABLE souths (
	key        BLOB    PRIMARY KEY,
	server     TEXT    NOT NULL,
	upstream   TEXT    NOT NULL,
	north      TEXT    NOT NULL,
	id         BLOB    NOT NULL, -- bytes of the upstream, which need not be text
	revision   TEXT    NOT NULL,
	instance   TEXT    NOT NULL,
	generation INTEGER NOT NULL,
	created    INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT;
CREATE INDEX souths_of_north ON souths (north, key);
CREATE INDEX souths_by_use ON souths (last_used);

CREATE TABLE claims (
	session    TEXT    PRIMARY KEY,
	owner      TEXT    NOT NULL,
	generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
