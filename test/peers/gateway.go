package peers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// Gateway is Penstock as a process of its own.
type Gateway struct {
	*Process
	// Origin is scheme, host and port.
	Origin string
}

// URL is the endpoint of the virtual server `default`.
func (g *Gateway) URL() string { return g.Origin + "/mcp" }

// ServerURL is the endpoint of another virtual server.
func (g *Gateway) ServerURL(name string) string { return g.Origin + "/servers/" + name + "/mcp" }

var listening = regexp.MustCompile(`(?m)^penstock: listening on (http://127\.0\.0\.1:\d+)/\S+$`)

// Build makes the binary of cmd/penstock under build/, with the race detector on or off, once per process, and returns
// its path.
func Build(race bool) (string, error) {
	if race {
		return buildRace()
	}
	return buildPlain()
}

var (
	buildPlain = sync.OnceValues(func() (string, error) { return build("build/penstock") })
	buildRace  = sync.OnceValues(func() (string, error) { return build("build/penstock-race", "-race") })
)

func build(output string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	path := filepath.Join(root, output)
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", path, "./cmd/penstock")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/penstock: %w\n%s", err, out)
	}
	return path, nil
}

// Serve runs `binary serve --listen 127.0.0.1:0 args...` in dir and waits for the line that says where it listens. The
// caller ends it with Stop, whose error tells of an exit that was not clean.
func Serve(ctx context.Context, binary, dir string, args ...string) (*Gateway, error) {
	p, err := launch(dir, nil, append([]string{binary, "serve", "--listen", "127.0.0.1:0"}, args...))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		if found := listening.FindStringSubmatch(p.Output()); found != nil {
			return &Gateway{Process: p, Origin: found[1]}, nil
		}
		var why error
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-ctx.Done():
			why = ctx.Err()
		case <-p.done:
			why = fmt.Errorf("ended: %w", p.err)
		}
		p.Kill()
		return nil, fmt.Errorf("penstock serve: no listening line: %w\n%s", why, p.Output())
	}
}
