-- +goose Up
CREATE TABLE tasks (
	hash       BLOB    NOT NULL, -- SHA-256 of the task's id
	principal  BLOB    NOT NULL,
	server     TEXT    NOT NULL,
	upstream   TEXT    NOT NULL,
	tool       BLOB    NOT NULL, -- bytes of the upstream, which need not be text
	exposed    BLOB    NOT NULL,
	legacy     INTEGER NOT NULL, -- 0 or 1
	replica    BLOB,             -- NULL: the upstream has one address
	instance   TEXT    NOT NULL,
	session    TEXT    NOT NULL,
	sealed     BLOB,
	located    INTEGER NOT NULL, -- 0 or 1
	mark       INTEGER NOT NULL,
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL, -- 0: unlimited
	used       INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	PRIMARY KEY (hash, principal)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_of_principal ON tasks (principal, server, created, hash);
CREATE INDEX tasks_of_upstream ON tasks (upstream, created, hash, principal);
CREATE INDEX tasks_by_age ON tasks (created, hash, principal);
CREATE INDEX tasks_by_expiry ON tasks (expires, used);
CREATE INDEX tasks_located ON tasks (hash, upstream) WHERE located = 1;

-- How many tasks there are: scope is a principal, or empty for all. The count of a scope is the sum over its slots, of which one may be below 0.
CREATE TABLE task_counts (
	scope BLOB    NOT NULL,
	slot  INTEGER NOT NULL,
	n     INTEGER NOT NULL,
	PRIMARY KEY (scope, slot)
) STRICT, WITHOUT ROWID;
