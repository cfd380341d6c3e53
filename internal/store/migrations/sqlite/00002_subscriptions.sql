-- +goose Up
ALTER TABLE sessions ADD COLUMN subscriptions TEXT NOT NULL DEFAULT ''; -- a JSON array of URIs, or empty
