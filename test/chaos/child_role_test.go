//go:build linux

package chaos_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// serveChild is the whole life of a child process: a legacy server over stdio
// that has started another process. A stubborn one heeds neither the end of its
// input nor a polite signal.
func serveChild() {
	stubborn := os.Getenv("PENSTOCK_CHAOS_STUBBORN") != ""
	if stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	if err := exec.Command("sleep", "600").Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	n := 0
	for in.Scan() {
		var m asked
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say(&m, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}`)
		case "ping":
			say(&m, `"result":{}`)
		case "tools/list":
			say(&m, `"result":{"tools":[`+tools+`]}`)
		case "tools/call":
			if m.Params.Name == "t3" {
				os.Exit(3)
			}
			n++
			say(&m, `"result":{"content":[],"structuredContent":`+said(&m, "child", "", n)+`}`)
		default:
			say(&m, `"error":{"code":-32601,"message":"no such method"}`)
		}
	}
	if stubborn {
		time.Sleep(10 * time.Minute)
	}
	os.Exit(0)
}

func say(m *asked, member string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, member)
}
