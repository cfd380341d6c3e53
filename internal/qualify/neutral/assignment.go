package neutral

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Identities are whose work a task is. A worker repeats them in everything it
// writes.
type Identities struct {
	PublicTask    string `json:"publicTaskId"`
	RequestSHA256 string `json:"requestSha256"`
	LogicalTask   string `json:"logicalTaskId"`
	Attempt       string `json:"attemptId"`
	Correlation   string `json:"correlationId"`
	Key           string `json:"idempotencyKey"`
}

// Assignment is all that a worker is told.
type Assignment struct {
	Root       string // the provider's
	Task       string // the provider's id
	Input      jsontext.Value
	Directory  string // where to write, below OutputFolder
	Identities Identities
	Delay      time.Duration // to wait before the effect
	Alter      bool          // to write another identity than the one that was given, and end well
}

// The environment of a worker. The guard keeps the command from doing anything
// when somebody types it.
const (
	envGuard      = "PENSTOCK_NEUTRAL_WORKER"
	guardWord     = "qualification-only"
	envRoot       = "PENSTOCK_NEUTRAL_ROOT"
	envTask       = "PENSTOCK_NEUTRAL_TASK"
	envInput      = "PENSTOCK_NEUTRAL_INPUT"
	envDirectory  = "PENSTOCK_NEUTRAL_DIRECTORY"
	envIdentities = "PENSTOCK_NEUTRAL_IDENTITIES"
	envDelay      = "PENSTOCK_NEUTRAL_DELAY_MS"
	envAlter      = "PENSTOCK_NEUTRAL_ALTER"
)

// environment is the whole environment of the worker that gets the assignment.
func (a *Assignment) environment() ([]string, error) {
	who, err := json.Marshal(a.Identities)
	if err != nil {
		return nil, fmt.Errorf("identities: %w", err)
	}
	return []string{
		envGuard + "=" + guardWord,
		envRoot + "=" + a.Root,
		envTask + "=" + a.Task,
		envInput + "=" + string(a.Input),
		envDirectory + "=" + a.Directory,
		envIdentities + "=" + string(who),
		envDelay + "=" + strconv.FormatInt(a.Delay.Milliseconds(), 10),
		envAlter + "=" + strconv.FormatBool(a.Alter),
	}, nil
}

// errGuard is a worker that nobody from here has started.
var errGuard = errors.New("this command is started by the qualification, and by nothing else")

// readAssignment reads the environment of a worker.
func readAssignment(env func(string) string) (*Assignment, error) {
	if env(envGuard) != guardWord {
		return nil, errGuard
	}
	a := &Assignment{Root: env(envRoot), Task: env(envTask), Input: jsontext.Value(env(envInput)), Directory: env(envDirectory)}
	if err := json.Unmarshal([]byte(env(envIdentities)), &a.Identities, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", envIdentities, err)
	}
	ms, err := strconv.ParseInt(env(envDelay), 10, 32)
	if err != nil || ms < 0 || ms > MaxDelay.Milliseconds() {
		return nil, fmt.Errorf("%s: want 0 to %d", envDelay, MaxDelay.Milliseconds())
	}
	a.Delay = time.Duration(ms) * time.Millisecond
	if a.Alter, err = strconv.ParseBool(env(envAlter)); err != nil {
		return nil, fmt.Errorf("%s: %w", envAlter, err)
	}
	if a.Root == "" || a.Task == "" {
		return nil, fmt.Errorf("%s and %s must be set", envRoot, envTask)
	}
	return a, nil
}
