package main

// guardName makes this program the guard of a child process and nothing else.
const guardName = "child-guard"

// guardCommand runs this program as a guard.
func guardCommand() []string {
	self, err := ownCommand(guardName)
	if err != nil {
		return nil // children then see their input end, and no more
	}
	return self
}
