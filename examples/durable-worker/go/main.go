// Command go is a worker for durable tasks: an MCP server of revision 2026-07-28
// with one tool, append_entry, that adds a line to a ledger. Nothing but the
// standard library is used.
//
// What makes it a worker that a durable task can be routed to:
//
//   - it speaks tasks: every call becomes one, and tasks/get and tasks/cancel work;
//   - it echoes the execution envelope, as it came, in the CreateTaskResult and in
//     every answer to tasks/get;
//   - it writes the envelope's identity down before it answers, and gives the task
//     that there is to whoever sends that identity again;
//   - it writes down that the effect begins before it begins, so that after a crash
//     it can tell what was never begun from what cannot be known;
//   - it keeps the limits of the submission itself: nobody else does.
//
// It is served over stdio, or over HTTP with --listen:
//
//	go run ./examples/durable-worker/go --state DIR [--listen 127.0.0.1:8090]
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const maxMessage = 1 << 20

func main() {
	state := flag.String("state", "", "`DIR` for the ledger and what is known of tasks")
	listen := flag.String("listen", "", "`ADDR` to serve HTTP on, at /mcp; without it: stdio")
	flag.Parse()
	if *state == "" {
		fmt.Fprintln(os.Stderr, "--state is needed")
		os.Exit(2)
	}
	w, err := openWorker(*state)
	if err == nil {
		if *listen == "" {
			err = serveStdio(w, os.Stdin, os.Stdout)
		} else {
			err = serveHTTP(w, *listen)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveStdio answers one line after the other until there are no more. Tasks
// that run then are found again by the next process.
func serveStdio(w *worker, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if answer := w.serve(lines.Bytes()); answer != nil {
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// serveHTTP answers every POST by itself: there are no sessions, so a gateway
// may bind a task again after a restart (session: stateless).
func serveHTTP(w *worker, addr string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxMessage))
		if err != nil {
			http.Error(rw, "the body could not be read", http.StatusBadRequest)
			return
		}
		answer := w.serve(body)
		if answer == nil {
			rw.WriteHeader(http.StatusAccepted)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(answer)
	})
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "serving on http://%s/mcp\n", ln.Addr())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return srv.Serve(ln)
}
