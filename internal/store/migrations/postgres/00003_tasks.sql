-- +goose Up
CREATE TABLE tasks (
	hash       BYTEA   NOT NULL, -- SHA-256 of the task's id
	principal  BYTEA   NOT NULL,
	server     TEXT    NOT NULL,
	upstream   TEXT    NOT NULL,
	tool       BYTEA   NOT NULL, -- bytes of the upstream, which need not be text
	exposed    BYTEA   NOT NULL,
	legacy     BIGINT  NOT NULL, -- 0 or 1
	replica    BYTEA,            -- NULL: the upstream has one address
	instance   TEXT    NOT NULL,
	session    TEXT    NOT NULL,
	sealed     BYTEA,
	located    BIGINT  NOT NULL, -- 0 or 1
	mark       BIGINT  NOT NULL,
	created    BIGINT  NOT NULL,
	expires    BIGINT  NOT NULL, -- 0: unlimited
	used       BIGINT  NOT NULL,
	generation BIGINT  NOT NULL,
	PRIMARY KEY (hash, principal)
);
CREATE INDEX tasks_of_principal ON tasks (principal, server, created, hash);
CREATE INDEX tasks_of_upstream ON tasks (upstream, created, hash, principal);
CREATE INDEX tasks_by_age ON tasks (created, hash, principal);
CREATE INDEX tasks_by_expiry ON tasks (expires, used);
CREATE INDEX tasks_located ON tasks (hash, upstream) WHERE located = 1;

-- How many tasks there are: scope is a principal, or empty for all. The count of a scope is the sum over its slots, of which one may be below 0.
CREATE TABLE task_counts (
	scope BYTEA   NOT NULL,
	slot  BIGINT  NOT NULL,
	n     BIGINT  NOT NULL,
	PRIMARY KEY (scope, slot)
);
