// The program idp is an identity provider on zitadel/oidc for tests: discovery, a key set, JWT access tokens, the client
// credentials grant and token exchange (RFC 8693), over plain HTTP on the loopback.
//
// What lies under /control/ is for the test alone: it mints tokens of any content, turns the keys over, counts what was
// asked and misbehaves on purpose. There is no login; a test that needs a caller's token mints it.
//
// It prints one line, `listening on http://127.0.0.1:PORT`, which is also its issuer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

var (
	listen    = flag.String("listen", "127.0.0.1:0", "address to serve at")
	algorithm = flag.String("alg", "RS256", "what tokens are signed with: RS256 or ES256")
	stateFile = flag.String("state", "", "file that keeps keys and clients over a restart; none: they are lost")
)

func main() {
	var clients []*client
	flag.Func("client", "a client as ID:SECRET:GRANT,GRANT; may be given again", func(text string) error {
		parts := strings.SplitN(text, ":", 3)
		if len(parts) != 3 {
			return errors.New("want ID:SECRET:GRANT,GRANT")
		}
		clients = append(clients, &client{ID: parts[0], Secret: parts[1], Grants: strings.Split(parts[2], ",")})
		return nil
	})
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err := serve(clients); err != nil {
		log.Fatal(err)
	}
}

func serve(clients []*client) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	state, err := openState(*stateFile, jose.SignatureAlgorithm(*algorithm))
	if err != nil {
		return err
	}
	for _, c := range clients {
		if err := state.register(c); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	issuer := "http://" + l.Addr().String()
	storage := newStorage(state)
	provider, err := op.NewProvider(&op.Config{AuthMethodPost: true}, storage, op.StaticIssuer(issuer), op.WithAllowInsecure())
	if err != nil {
		return err
	}
	watched := &watch{next: provider}
	mux := http.NewServeMux()
	mux.Handle("/", watched)
	(&control{issuer: issuer, state: state, storage: storage, watch: watched}).routes(mux)

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Printf("listening on %s\n", issuer)
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
