// Package taskspeers has the clients of tasks that others wrote drive, through Penstock, the servers of tasks that others
// wrote: the npm package ext-tasks in both dialects, the first TypeScript SDK and the client of FastMCP, the tasks server
// of FastMCP, the npm everything server, and the job servers of `penstock demo` in both dialects.
//
// The programs are those of test/peers; each run of one is a process of its own, so what comes back with an id alone does
// so in another process.
package taskspeers
