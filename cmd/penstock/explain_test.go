package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestExplainAsksTheRunningGateway(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "a.sock")
	path := document(t, dir, "listen: 127.0.0.1:0\nadmin: unix:"+sock+"\n"+yamlUpstreams("library", library(t), "workshop", workshop(t))+
		"servers:\n  default: {aliases: {find: {upstream: library, tool: search_books}}, expose: {tools: {deny: ['*get_book']}}}\n  books: {upstreams: [library], naming: passthrough}\n")
	p := run(t, dir, "serve")
	p.endpoint()
	if at := p.find(`^penstock: admin on (\S+)$`); at != "unix:"+sock {
		t.Errorf("admin on %s", at)
	}
	if fi, err := os.Stat(sock); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", fi, err)
	}
	for _, c := range []struct {
		args []string
		code int
		has  []string
	}{
		{[]string{"library__search_books"}, 0, []string{`tool "library__search_books" goes to upstream "library" as "search_books"`, "find"}},
		{[]string{"find"}, 0, []string{`goes to upstream "library" as "search_books"`, "alias"}},
		{[]string{"search_books", "--server", "books"}, 0, []string{`server books: tool "search_books" goes to upstream "library"`}},
		{[]string{"workshop://safety"}, 0, []string{`resource "workshop://safety" goes to upstream "workshop"`}},
		{[]string{"library__get_book"}, 0, []string{"hidden"}},
		{[]string{"nobody__nothing"}, 0, []string{"goes nowhere"}},
		{[]string{"library__search_books", "--server", "none"}, 1, []string{"none"}},
	} {
		for _, where := range [][]string{{"--admin", "unix:" + sock}, {"--config", path}} {
			code, out, problems := once(t, dir, append(append([]string{"explain"}, c.args...), where...)...)
			if code != c.code {
				t.Errorf("explain %v %v: exit %d\n%s%s", c.args, where, code, out, problems)
			}
			for _, want := range c.has {
				if !strings.Contains(out+problems, want) {
					t.Errorf("explain %v %v lacks %q:\n%s%s", c.args, where, want, out, problems)
				}
			}
		}
	}
	// A second gateway does not take a live socket over.
	if code, _, problems := once(t, dir, "serve", "--config", path); code != 1 || !strings.Contains(problems, "in use") {
		t.Errorf("second gateway: exit %d, %s", code, problems)
	}
	if code, _, _ := once(t, dir, "explain", "find", "--config", path); code != 0 {
		t.Errorf("the first gateway's socket is gone: exit %d", code)
	}
	if code, _ := p.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, p.stderr())
	}
	if _, err := os.Lstat(sock); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestASocketOfAProcessThatIsGoneIsReplaced(t *testing.T) {
	sock := filepath.Join(shortDir(t), "a.sock")
	old, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = old.Close()
	ln, err := listenUnix(t.Context(), sock)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if fi, err := os.Stat(sock); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	if left, err := filepath.Glob(sock + ".*"); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if second, err := listenUnix(t.Context(), sock); err == nil {
		_ = second.Close()
		t.Error("a live socket was taken over")
	}
}

func TestWhatIsNoSocketIsNotTouched(t *testing.T) {
	path := filepath.Join(shortDir(t), "a.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ln, err := listenUnix(t.Context(), path); err == nil {
		_ = ln.Close()
		t.Error("a file was taken for a socket")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if ln, err := listenUnix(t.Context(), filepath.Join(t.TempDir(), strings.Repeat("a", 120))); err == nil {
		_ = ln.Close()
		t.Error("a path that is too long was bound")
	}
}
