package hostile_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The roles that this binary has as another process.
const (
	childRole      = "hostile-child"
	grandchildRole = "hostile-grandchild"
)

// The files of a child in its folder. It appends a byte to each when that happens.
const (
	startsFile = "starts"
	callsFile  = "calls" // of the tool never
	fixedFile  = "fixed" // while it is missing, a broken child ends at once
)

// serveChild is the whole life of a child: an MCP server over stdio of the modes
// in args[1], words with commas between, that keeps its files in the folder args[0].
//
//	legacy    it speaks 2025-11-25 and not 2026-07-28
//	mute      it answers nothing
//	broken    it ends at once while its fixed file is missing
//	stubborn  it heeds neither the end of its input nor a polite signal
//	forks     it starts another process
//	grows     prompts are offered from its second start on
func serveChild(args []string) {
	folder, modes := args[0], strings.Split(args[1], ",")
	is := func(mode string) bool { return slices.Contains(modes, mode) }
	if is("stubborn") {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	}
	starts := tally(folder, startsFile)
	if _, err := os.Stat(filepath.Join(folder, fixedFile)); is("broken") && err != nil {
		os.Exit(3)
	}
	if is("forks") {
		if err := exec.Command(os.Args[0], grandchildRole, folder).Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	caps := `{"tools":{}}`
	if is("grows") && starts > 1 {
		caps = `{"tools":{},"prompts":{}}`
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil || is("mute") {
			continue
		}
		say := func(member string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, member) }
		switch {
		case m.Method == "server/discover" && !is("legacy"):
			say(`"result":{"supportedVersions":["` + modernVersion + `"],"capabilities":` + caps + `,"ttlMs":1000,"cacheScope":"public"}`)
		case m.Method == "initialize" && is("legacy"):
			say(`"result":{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"serverInfo":{"name":"child","version":"1"}}`)
		case m.Method == "ping":
			say(`"result":{}`)
		case m.Method == "tools/list":
			tools := []string{"pid", "never", "environment", "start-" + strconv.Itoa(starts)}
			for i, name := range tools {
				tools[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
			}
			say(`"result":{"tools":[` + strings.Join(tools, ",") + `]}`)
		case m.Method == "prompts/list" && strings.Contains(caps, "prompts"):
			say(`"result":{"prompts":[{"name":"p"}]}`)
		case m.Method == "tools/call":
			said := ""
			switch m.Params.Name {
			case "never":
				tally(folder, callsFile)
				continue
			case "pid":
				said = strconv.Itoa(os.Getpid())
			case "environment":
				said = strings.Join(os.Environ(), "\n")
			}
			say(`"result":{"content":[{"type":"text","text":` + quote(said) + `}]}`)
		default:
			say(`"error":{"code":-32601,"message":"no such method"}`)
		}
	}
	if is("stubborn") {
		time.Sleep(10 * time.Minute)
	}
}

// tally appends a byte to a file and returns how many there are.
func tally(folder, name string) int {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write([]byte{'.'})
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return tallied(folder, name)
}

// tallied is how many bytes a file has; 0 also where there is none.
func tallied(folder, name string) int {
	info, err := os.Stat(filepath.Join(folder, name))
	if err != nil {
		return 0
	}
	return int(info.Size())
}
