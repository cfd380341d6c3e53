//go:build !race

package taskcost_test

const raceEnabled = false
