// Package taskslegacy tests what clients of 2025-11-25 and older get of tasks: those
// of their own dialect, and those that the gateway drives for them.
package taskslegacy
