//go:build linux

package chaos_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processes are the processes that started as a child with a token, or run the
// gateway's program: the gateway and the guards of its children.
func processes(token, bin string) (found []process) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		exe, _ := os.Readlink(dir + "/exe")
		env, _ := os.ReadFile(dir + "/environ")
		if exe != bin && !bytes.Contains(env, []byte(markEnv+"="+token+"\x00")) {
			continue
		}
		if p, ok := look(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

// process is one process; the time of its start tells it from a later one with
// its number.
type process struct {
	pid, parent int
	start       string
	name        string
}

func (p process) String() string { return fmt.Sprintf("%s %d of %d", p.name, p.pid, p.parent) }

// look is false for a process that has ended, reaped or not.
func look(pid int) (process, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || shut < open {
		return process{}, false
	}
	fields := strings.Fields(string(raw[shut+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, start: fields[19], name: string(raw[open+1 : shut])}, true
}

// lives reports whether the process is still there.
func (p process) lives() bool {
	now, ok := look(p.pid)
	return ok && now.start == p.start
}

// gone waits until the processes have ended and returns those that have not, and
// how long the last that did took.
func gone(all []process, within time.Duration) (left []process, took time.Duration) {
	start := time.Now()
	for {
		left = left[:0:0]
		for _, p := range all {
			if p.lives() {
				left = append(left, p)
			}
		}
		if len(left) == 0 || time.Since(start) > within {
			return left, time.Since(start)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// usage is what a process holds.
type usage struct {
	descriptors, threads, children int
	resident                       int // KiB
}

// used reads what a process holds now.
func used(pid int) usage {
	var u usage
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	u.descriptors = len(fds)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "Threads":
			u.threads = n
		case "VmRSS":
			u.resident = n
		}
	}
	u.children = len(childrenOf(pid))
	return u
}

// childrenOf are the children of a process that have not ended.
func childrenOf(parent int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, ok := look(pid); ok && p.parent == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}
