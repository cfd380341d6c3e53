package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// control is what a test drives the provider with.
type control struct {
	issuer  string
	state   *state
	storage *storage
	watch   *watch
}

func (c *control) routes(mux *http.ServeMux) {
	handle(mux, "POST /control/token", func(w *wanted) (any, error) {
		token, err := mint(c.state, c.issuer, w)
		return map[string]string{"token": token}, err
	})
	handle(mux, "POST /control/rotate", func(in *struct {
		Alg jose.SignatureAlgorithm `json:"alg"`
	},
	) (any, error) {
		k, err := c.state.rotate(in.Alg)
		if err != nil {
			return nil, err
		}
		return map[string]string{"kid": k.KID}, nil
	})
	handle(mux, "POST /control/retire", func(*struct{}) (any, error) {
		gone, err := c.state.retire()
		return map[string]int{"retired": gone}, err
	})
	handle(mux, "GET /control/counts", func(*struct{}) (any, error) { return c.watch.counted(), nil })
	handle(mux, "POST /control/fail", func(f *faults) (any, error) {
		c.watch.misbehave(*f)
		return struct{}{}, nil
	})
	handle(mux, "POST /control/key", func(*struct{}) (any, error) {
		k := c.state.signing()
		text, err := k.publicPEM()
		return map[string]any{"kid": k.KID, "alg": k.Alg, "pem": text, "jwk": k.jwk()}, err
	})
	handle(mux, "POST /control/client", func(in *client) (any, error) { return struct{}{}, c.state.register(in) })
	handle(mux, "POST /control/lifetime", func(in *struct {
		Seconds float64 `json:"seconds"`
	},
	) (any, error) {
		if in.Seconds <= 0 {
			return nil, errors.New("a lifetime is more than zero seconds")
		}
		c.storage.lifetime.Store(int64(in.Seconds * float64(time.Second)))
		return struct{}{}, nil
	})
}

// handle answers a JSON body, or none, with JSON. An error is the test's mistake.
func handle[In any](mux *http.ServeMux, pattern string, f func(*In) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		in := new(In)
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(in); err != nil && !errors.Is(err, io.EOF) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := f(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	})
}
