// Package tasks holds the black-box tests of task affinity under attack, under faults and under load (DESIGN section 9).
//
// The gateway is the public one, made of a document and served over HTTP. Upstreams are scripted, honest or not. Where gateways
// and databases die is test/chaos. Tests whose name ends in a number, here, in test/tasks_listen and in test/tasks_legacy, hold what line of that number of
// reference/hostile-tasks.md says went wrong elsewhere.
package tasks
