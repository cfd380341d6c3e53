package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc. It has been 10 ms on every Linux that
// Go runs on, whatever the kernel's own clock is.
const tick = 10 * time.Millisecond

// cpuOf returns the CPU time that a process used since it began, user and
// system, in steps of 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

func parseStat(stat []byte) (time.Duration, error) {
	// The second field is the program's name in parentheses, and may hold both
	// spaces and parentheses; the fields behind it are counted from the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc stat has %d fields behind the name", len(fields))
	}
	user, badUser := strconv.ParseInt(fields[11], 10, 64)
	system, badSystem := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(badUser, badSystem)
}

// memoryOf returns a figure of /proc/PID/status in bytes: VmRSS is what is
// resident now, VmHWM the most that ever was.
func memoryOf(pid int, figure string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, figure+":"); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, figure)
}

// busyTime returns the CPU time that the whole machine spent on work since it
// started.
func busyTime() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// meter measures one stretch of a run.
type meter struct {
	hop, upstream int // processes
	begin         time.Time
	used          time.Duration // by the hop
	busy, own     time.Duration // of the machine; of this run's own processes
}

func newMeter(hop, upstream int) (*meter, error) {
	m := &meter{hop: hop, upstream: upstream}
	var err error
	if m.used, m.busy, m.own, err = m.read(); err != nil {
		return nil, err
	}
	m.begin = time.Now()
	return m, nil
}

func (m *meter) read() (hop, busy, own time.Duration, err error) {
	hop, badHop := cpuOf(m.hop)
	upstream, badUpstream := cpuOf(m.upstream)
	self, badSelf := cpuOf(os.Getpid())
	busy, badBusy := busyTime()
	return hop, busy, hop + upstream + self, errors.Join(badHop, badUpstream, badSelf, badBusy)
}

// stop returns the CPU time of the hop, the time that passed, and how many
// cores other processes of the machine used meanwhile.
func (m *meter) stop() (used, passed time.Duration, others float64, err error) {
	passed = time.Since(m.begin)
	used, busy, own, err := m.read()
	others = max(0, float64((busy-m.busy)-(own-m.own))/float64(passed))
	return used - m.used, passed, others, err
}
