package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxAnswer = 256 << 20 // bytes of one answer that are read
	maxPage   = 64 << 10  // bytes of a page that is no MCP answer
)

// received is one JSON-RPC message from the server.
type received struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *rpcError      `json:"error"`
}

// rpcError is an error that the server answered with.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data"`
	status  int            // HTTP
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// httpError is an HTTP status without a JSON-RPC error.
type httpError struct {
	status   int
	kind     string // media type
	page     []byte // the beginning of the body
	location string
}

func (e *httpError) Error() string { return fmt.Sprintf("HTTP %d", e.status) }

// oddAnswer is an answer that is not what the protocol says.
type oddAnswer struct {
	what string
	err  error
}

func (e *oddAnswer) Error() string { return e.what }
func (e *oddAnswer) Unwrap() error { return e.err }

// decodeReceived reads one message; it is lenient in what does not matter here,
// so that a faulty server can be looked at.
func decodeReceived(raw []byte) (*received, error) {
	var m received
	if err := json.Unmarshal(raw, &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	return &m, nil
}

// read returns the result out of an HTTP answer to the message with that id.
func (c *caller) read(ctx context.Context, resp *http.Response, id string, header http.Header) (jsontext.Value, error) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case ok && id == "":
		return nil, nil
	case ok && kind == "text/event-stream":
		return c.readStream(ctx, resp.Body, id, header)
	case ok && kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil {
			return nil, &brokenOff{err}
		}
		if len(body) > maxAnswer {
			return nil, &oddAnswer{what: fmt.Sprintf("its answer is larger than %d MiB", maxAnswer>>20)}
		}
		m, err := decodeReceived(body)
		if err != nil {
			return nil, &oddAnswer{what: "its answer is not a JSON-RPC message", err: err}
		}
		return finish(m, id, resp.StatusCode)
	}
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		page = nil // the status says enough
	}
	if m, err := decodeReceived(page); err == nil && m.Error != nil {
		m.Error.status = resp.StatusCode
		return nil, m.Error
	}
	return nil, &httpError{status: resp.StatusCode, kind: kind, page: page, location: resp.Header.Get("Location")}
}

// finish takes the result out of the final message.
func finish(m *received, id string, status int) (jsontext.Value, error) {
	switch {
	case m.Error != nil:
		m.Error.status = status
		return nil, m.Error
	case m.Result == nil:
		return nil, &oddAnswer{what: "its answer holds neither a result nor an error"}
	case string(m.ID) != id:
		return nil, &oddAnswer{what: fmt.Sprintf("it answered the request %s with the id %s", id, printable(string(m.ID)))}
	}
	return m.Result, nil
}

// readStream reads server-sent events up to the final message.
func (c *caller) readStream(ctx context.Context, body io.Reader, id string, header http.Header) (jsontext.Value, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	var data []byte
	has := false
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) > 0 {
			if v, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				if has {
					data = append(data, '\n')
				}
				data, has = append(data, bytes.TrimPrefix(v, []byte(" "))...), true
			}
			continue
		}
		if len(bytes.TrimSpace(data)) > 0 { // a priming event has none
			result, done, err := c.event(ctx, data, id, header)
			if done || err != nil {
				return result, err
			}
		}
		data, has = data[:0], false
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &oddAnswer{what: fmt.Sprintf("its answer is larger than %d MiB", maxAnswer>>20)}
	} else if err != nil {
		return nil, &brokenOff{err}
	}
	return nil, &brokenOff{io.ErrUnexpectedEOF}
}

// event handles the message of one event, or the batch of them that 2025-03-26
// allows; done says that it was the final one.
func (c *caller) event(ctx context.Context, data []byte, id string, header http.Header) (result jsontext.Value, done bool, err error) {
	raws := []jsontext.Value{data}
	if jsontext.Value(data).Kind() == '[' {
		raws = nil
		if err := json.Unmarshal(data, &raws); err != nil {
			return nil, false, &oddAnswer{what: "its stream holds an event that is not JSON", err: err}
		}
	}
	for _, raw := range raws {
		m, err := decodeReceived(raw)
		switch {
		case err != nil:
			return nil, false, &oddAnswer{what: "its stream holds an event that is not a JSON-RPC message", err: err}
		case m.Method == "":
			result, err := finish(m, id, http.StatusOK)
			return result, true, err
		}
		line := printable(m.Method)
		if m.Params != nil {
			line += " " + string(compact(m.Params))
		}
		if _, err := fmt.Fprintln(c.notes, line); err != nil {
			return nil, false, err
		}
		if m.ID != nil && c.legacy {
			if err := c.reply(ctx, m, header); err != nil {
				return nil, false, err
			}
		}
	}
	return nil, false, nil
}

// brokenOff is an answer that ended before it was complete.
type brokenOff struct{ err error }

func (e *brokenOff) Error() string { return "the answer broke off" }
func (e *brokenOff) Unwrap() error { return e.err }
