package main

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// extension is that of tasks.
const extension = "io.modelcontextprotocol/tasks"

// taskPrefix begins the id of every task. Behind it are the number of its upstream
// and its own: one that came to the wrong upstream is unknown there.
const taskPrefix = "bench-task-"

// task makes a task of a call, or tells how one stands; false: neither.
func (u *upstream) task(out *outgoing, at place, m *request) bool {
	id, kind := m.Params.TaskID, "complete"
	switch {
	case m.Method == "tools/call" && declares(m):
		id, kind = taskPrefix+strconv.Itoa(at.n)+"-"+strconv.FormatInt(u.made.Add(1), 10), "task"
	case m.Method != "tasks/get":
		return false
	}
	out.add(`{"resultType":"`, kind, `","taskId":"`, id, `","status":"working","statusMessage":"Reading the gauges of the upper gate.",`,
		`"createdAt":"2026-07-28T12:00:00.000Z","lastUpdatedAt":"2026-07-28T12:00:00.000Z","ttlMs":null,"pollIntervalMs":1000}}`)
	return true
}

// declares reports whether a request comes of a client that can have tasks.
func declares(m *request) bool {
	var caps struct {
		Extensions map[string]jsontext.Value `json:"extensions"`
	}
	err := json.Unmarshal(m.Params.Meta.Capabilities, &caps)
	_, can := caps.Extensions[extension]
	return err == nil && can
}

// has reports whether the task is one that was made at a place.
func (u *upstream) has(at place, id string) bool {
	own, found := strings.CutPrefix(id, taskPrefix+strconv.Itoa(at.n)+"-")
	n, err := strconv.ParseInt(own, 10, 64)
	return found && err == nil && n > 0 && n <= u.made.Load()
}
