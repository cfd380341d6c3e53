package qualify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// caller is a client of the router. Its requests follow one another.
type caller struct {
	conn  net.Conn
	lines *bufio.Reader
	last  int
	polls int // tasks/get that it made
}

func newCaller(conn net.Conn) *caller { return &caller{conn: conn, lines: bufio.NewReader(conn)} }

// send writes a request; ctx bounds it and what is read next.
func (c *caller) send(ctx context.Context, method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c.last++
	if method == mcp.TasksGet {
		c.polls++
	}
	line, err := json.Marshal(request{"2.0", c.last, method, raw})
	if err != nil {
		return err
	}
	until, ok := ctx.Deadline()
	if !ok {
		return errors.New("a request without a deadline")
	}
	if err := c.conn.SetDeadline(until); err != nil {
		return err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

// ask makes a request and returns its result. An error that the router answered
// with is an *rpcError.
func (c *caller) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := c.send(ctx, method, params); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var r response
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	switch {
	case r.ID != c.last:
		return nil, fmt.Errorf("%s: the answer is to request %d, not %d", method, r.ID, c.last)
	case r.Error != nil:
		return nil, r.Error
	}
	return r.Result, nil
}

// lose makes a request and loses its answer: the first byte shows that there is
// one, and then the connection is closed.
func (c *caller) lose(ctx context.Context, method string, params any) error {
	if err := c.send(ctx, method, params); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if _, err := io.ReadFull(c.conn, make([]byte, 1)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return c.conn.Close()
}

func (c *caller) close() { _ = c.conn.Close() } // a pipe

// tool calls a tool. A refusal in its result is an error with the code.
func (c *caller) tool(ctx context.Context, name string, arguments any, into any) error {
	raw, err := c.ask(ctx, mcp.ToolsCall, called(name, arguments))
	if err != nil {
		return err
	}
	var r struct {
		IsError    bool `json:"isError"`
		Structured struct {
			Code string `json:"code"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("%s: %s", name, r.Structured.Code)
	}
	return json.Unmarshal(raw, into)
}

func called(name string, arguments any) map[string]any {
	return map[string]any{"name": name, "arguments": arguments}
}

// seen is what a caller is told of a task.
type seen struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage"`
	Meta    struct {
		Route struct {
			ID                 string `json:"publicTaskId"`
			RequestSHA256      string `json:"requestSha256"`
			Phase              string `json:"routePhase"`
			ExecutionState     string `json:"executionState"`
			PolicyAcceptance   string `json:"policyAcceptance"`
			VerificationStatus string `json:"verificationStatus"`
		} `json:"penstock/taskRoute"`
	} `json:"_meta"`
}

// poll makes one tasks/get.
func (c *caller) poll(ctx context.Context, id string) (*seen, error) {
	raw, err := c.ask(ctx, mcp.TasksGet, map[string]string{"taskId": id})
	if err != nil {
		return nil, err
	}
	s := new(seen)
	return s, json.Unmarshal(raw, s)
}

// pollEvery is how often a caller asks.
const pollEvery = 25 * time.Millisecond

// await polls until the status is another than working.
func (c *caller) await(ctx context.Context, id string, patience time.Duration) (*seen, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, err := c.poll(ctx, id)
		if err != nil || s.Status != "working" {
			return s, err
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return s, fmt.Errorf("still %s (%s): %w", s.Status, s.Message, err)
		}
	}
}

// sleep waits, and no longer than ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
