package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
)

// role is a part that this program plays as a process of its own. It prints one
// line when it listens and ends with ctx.
type role func(ctx context.Context, args []string, stderr io.Writer) error

var roles = map[string]role{"upstream": playUpstream, "plain": playPlain}

func playUpstream(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench upstream", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:0", "`ADDR` to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := announce(ctx, *listen, stderr)
	if err != nil {
		return err
	}
	return new(upstream).serve(ctx, l)
}

func playPlain(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench plain", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:0", "`ADDR` to listen on")
	target := flags.String("upstream", "", "`URL` to pass everything on to; paths are kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	u, err := url.Parse(*target)
	if err != nil {
		return err
	}
	if u.Host == "" {
		return errors.New("-upstream must name a URL")
	}
	l, err := announce(ctx, *listen, stderr)
	if err != nil {
		return err
	}
	return servePlain(ctx, l, u)
}

// announce listens and says where, in the words that Penstock uses.
func announce(ctx context.Context, addr string, stderr io.Writer) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "bench: listening on http://%s\n", l.Addr())
	return l, nil
}
