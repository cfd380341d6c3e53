package peers

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"time"
)

var issuing = regexp.MustCompile(`(?m)^listening on (http://127\.0\.0\.1:\d+)$`)

// ServeIdentity starts the identity provider (golang/idp) at address, a free port of the loopback when that ends in :0,
// and waits for the line that says where it listens, which is its issuer. More arguments are the program's flags. The
// caller ends it with Kill. Package test/idp wraps it for tests.
func ServeIdentity(ctx context.Context, address string, flags ...string) (p *Process, issuer string, err error) {
	if err := Setup(); err != nil {
		return nil, "", err
	}
	root, err := Root()
	if err != nil {
		return nil, "", err
	}
	p, err = launch(root, nil, append([]string{filepath.Join(root, "build/peers/go-idp"), "-listen", address}, flags...))
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		if found := issuing.FindStringSubmatch(p.Output()); found != nil {
			return p, found[1], nil
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
		return nil, "", fmt.Errorf("identity provider: no listening line: %w\n%s", why, p.Output())
	}
}
