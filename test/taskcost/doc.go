// Package taskcost holds what tasks may cost, through the whole handler of a gateway
// in front of a hundred upstreams, with a thousand callers: commits and allocations,
// which no noise changes, and the memory of many owners. What a poll costs in CPU
// time is a cell of the program bench.
package taskcost
