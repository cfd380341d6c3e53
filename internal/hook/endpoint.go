package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// mostConns is how many connections a hook has at most.
const mostConns = 64

// idleFor is how long an unused connection is kept. Common servers close theirs
// after 5 s or more; a connection that the server closes just as a question goes
// out on it fails that question, for one that may have been read is not sent
// again.
const idleFor = 4 * time.Second

// endpoint is a hook behind HTTP/1.1. It follows no redirect, reads no proxy
// variable and keeps no cookie.
type endpoint struct {
	client   *http.Client
	url      *url.URL    // shared by all requests, never changed
	header   http.Header // likewise
	openings [numEvents]string
	most     int64 // bytes of an answer
}

func newEndpoint(id string, u *url.URL, timeout time.Duration, most int64) *endpoint {
	h := &endpoint{
		url:  u,
		most: most,
		header: http.Header{
			"Content-Type": {"application/json"},
			"Accept":       {"application/json"},
			"User-Agent":   {"penstock"},
		},
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				// A dial goes on when its question has been given up, and must end, too.
				DialContext:            (&net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}).DialContext,
				TLSHandshakeTimeout:    timeout,
				MaxConnsPerHost:        mostConns,
				MaxIdleConns:           mostConns,
				MaxIdleConnsPerHost:    mostConns,
				IdleConnTimeout:        idleFor,
				DisableCompression:     true,
				MaxResponseHeaderBytes: answerExtra,
				Protocols:              http1(),
			},
		},
	}
	for e := range numEvents {
		h.openings[e] = opening(id, e)
	}
	return h
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// ask posts c and reads the answer. The body is a buffer of its own: the
// transport may still read it when ask has returned.
func (h *endpoint) ask(ctx context.Context, c *Call) (Verdict, error) {
	opening := h.openings[c.Event]
	body := appendBody(make([]byte, 0, bodyRoom(opening, c)), opening, c)
	req := (&http.Request{
		Method: http.MethodPost, URL: h.url, Host: h.url.Host, Header: h.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	resp, err := h.client.Do(req)
	if err != nil {
		return Verdict{}, &failure{kind: unreachable, err: bare(err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Verdict{}, &failure{kind: badStatus, err: fmt.Errorf("status %d", resp.StatusCode)}
	}
	if !isJSON(resp.Header["Content-Type"]) {
		return Verdict{}, &failure{kind: badMedia}
	}
	raw, err := h.read(resp)
	if err != nil {
		return Verdict{}, err
	}
	return parseAnswer(raw)
}

// read reads the answer to its end, so that the connection can be kept.
func (h *endpoint) read(resp *http.Response) ([]byte, error) {
	if resp.ContentLength > h.most {
		return nil, &failure{kind: tooLong, err: fmt.Errorf("%d bytes", resp.ContentLength)}
	}
	var buf bytes.Buffer
	if resp.ContentLength > 0 {
		// What is announced need not come, so a long answer gets its room as it comes.
		buf.Grow(int(min(resp.ContentLength, answerExtra)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, h.most+1))
	switch {
	case err != nil:
		return nil, &failure{kind: unreachable, err: bare(err)}
	case n > h.most:
		return nil, &failure{kind: tooLong}
	}
	return buf.Bytes(), nil
}

// isJSON reports that the one Content-Type is application/json, in UTF-8.
func isJSON(values []string) bool {
	if len(values) != 1 {
		return false
	}
	if values[0] == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(values[0])
	charset := params["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// bare is the error without the URL, which may hold secrets.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (h *endpoint) close() { h.client.CloseIdleConnections() }
