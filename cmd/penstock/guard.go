package main

import (
	"os"
	"runtime"
)

// guardName makes this program the guard of a child process and nothing else.
const guardName = "child-guard"

// guardCommand runs this program as a guard. On Linux it is reached by what the
// process runs, whatever became of the file meanwhile.
func guardCommand() []string {
	if runtime.GOOS == "linux" {
		return []string{"/proc/self/exe", guardName}
	}
	self, err := os.Executable()
	if err != nil {
		return nil // children then see their input end, and no more
	}
	return []string{self, guardName}
}
