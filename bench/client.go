package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"
)

// callWithin bounds one request with its answer.
const callWithin = time.Minute

// client is one MCP client on one connection. It is used by one goroutine at a
// time.
type client struct {
	conn    net.Conn
	br      *bufio.Reader
	host    string
	path    string
	era     era
	session string
	id      int64
	strict  bool   // decode the next answer whole, whatever its size
	tasks   bool   // it can have tasks
	key     string // shown as bearer; "": none

	status int
	head   head
	body   []byte // of the last answer
	out    []byte
	params []byte
}

// connect opens a connection to the endpoint and, for a legacy client, a
// session on it. The caller closes the client.
func connect(ctx context.Context, endpoint string, e era) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: callWithin}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	// A modest buffer: thousands of idle clients live in this process.
	c := &client{conn: conn, br: bufio.NewReaderSize(conn, 4<<10), host: u.Host, path: u.Path, era: e, strict: true}
	if e == modern {
		return c, nil
	}
	if err := c.initialize(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) initialize() error {
	c.params = append(c.params[:0], `"protocolVersion":"`+legacy.revision()+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`...)
	if err := c.ask("initialize", ""); err != nil {
		return err
	}
	if err := checkInitialize(c.body, c.id); err != nil {
		return c.wrong(err)
	}
	c.session = string(c.head.get(headerSession))
	if err := c.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), "", ""); err != nil {
		return err
	}
	if c.status != 202 {
		return c.wrong(fmt.Errorf("notifications/initialized: HTTP %d", c.status))
	}
	return nil
}

// call calls a tool that returns size bytes, and checks every one of them.
func (c *client) call(tool string, f form, size int) error {
	want := payloadOf(f, size)
	c.params = append(c.params[:0], `"name":"`...)
	c.params = append(c.params, tool...)
	c.params = append(c.params, `","arguments":{"size":`...)
	c.params = strconv.AppendInt(c.params, int64(size), 10)
	c.params = append(c.params, '}')
	token := ""
	if f == events {
		token = "p" + strconv.FormatInt(c.id+1, 10)
	}
	c.meta(token)
	if err := c.ask("tools/call", tool); err != nil {
		return err
	}
	message := c.body
	if f == events {
		var err error
		if message, err = checkEvents(c.head.get("Content-Type"), c.body, token); err != nil {
			return c.wrong(err)
		}
	}
	strict := c.strict || len(message) <= strictBelow
	c.strict = false
	if err := checkCall(message, c.id, want, strict); err != nil {
		return c.wrong(err)
	}
	return nil
}

// list walks tools/list to its end and checks that it holds these tools. The
// first walk decodes every page, later ones count.
func (c *client) list(want []string) error {
	strict := c.strict
	c.strict = false
	found := 0
	var names []string
	var cursor []byte
	for page := 0; ; page++ {
		if page > len(want) {
			return fmt.Errorf("tools/list: no end after %d pages", page)
		}
		c.params = c.params[:0]
		if page > 0 {
			c.params = append(c.params, `"cursor":`...)
			c.params = append(c.params, cursor...)
		}
		c.meta("")
		if err := c.ask("tools/list", ""); err != nil {
			return err
		}
		if strict {
			some, err := checkPage(c.body, c.id)
			if err != nil {
				return c.wrong(err)
			}
			names = append(names, some...)
		}
		found += bytes.Count(c.body, []byte(`"inputSchema":`))
		next, more := nextCursor(c.body)
		if !more {
			break
		}
		cursor = append(cursor[:0], next...)
	}
	if found != len(want) {
		return c.wrong(fmt.Errorf("tools/list: %d tools, want %d", found, len(want)))
	}
	if strict {
		return checkNames(names, want)
	}
	return nil
}

// meta ends the params with what the era and a progress token demand.
func (c *client) meta(token string) {
	if c.era == legacy && token == "" {
		return
	}
	if len(c.params) > 0 {
		c.params = append(c.params, ',')
	}
	c.params = append(c.params, `"_meta":{`...)
	if token != "" {
		c.params = append(c.params, `"progressToken":"`+token+`"`...)
		if c.era == modern {
			c.params = append(c.params, ',')
		}
	}
	if c.era == modern {
		c.params = append(c.params, modernMeta...)
		if c.tasks {
			c.params = append(c.params, `{"extensions":{"`+extension+`":{}}}`...)
		} else {
			c.params = append(c.params, "{}"...)
		}
	}
	c.params = append(c.params, '}')
}

// ask sends a request with c.params and reads its answer, which must be 200.
func (c *client) ask(method, name string) error {
	c.id++
	b := append(c.out[:0], `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, c.id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, `","params":{`...)
	b = append(b, c.params...)
	b = append(b, "}}"...)
	c.out = b
	if err := c.post(b, method, name); err != nil {
		return err
	}
	if c.status != 200 {
		return c.wrong(fmt.Errorf("%s: HTTP %d", method, c.status))
	}
	return nil
}

// post sends one body and reads the answer to it into c.status, c.head and
// c.body.
func (c *client) post(body []byte, method, name string) error {
	h := make([]byte, 0, 512)
	h = append(h, "POST "+c.path+" HTTP/1.1\r\nHost: "+c.host+"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if c.era == modern {
		h = append(h, headerVersion+": "+modern.revision()+"\r\n"+headerMethod+": "+method+"\r\n"...)
		if name != "" {
			h = append(h, headerName+": "+name+"\r\n"...)
		}
	} else if method != "initialize" {
		h = append(h, headerVersion+": "+legacy.revision()+"\r\n"...)
		if c.session != "" {
			h = append(h, headerSession+": "+c.session+"\r\n"...)
		}
	}
	if c.key != "" {
		h = append(h, "Authorization: Bearer "+c.key+"\r\n"...)
	}
	h = append(h, "Content-Length: "...)
	h = strconv.AppendInt(h, int64(len(body)), 10)
	h = append(h, "\r\n\r\n"...)
	h = append(h, body...)
	if err := c.conn.SetDeadline(time.Now().Add(callWithin)); err != nil {
		return err
	}
	if _, err := c.conn.Write(h); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := c.head.read(c.br); err != nil {
		return fmt.Errorf("read: %w", noEOF(err))
	}
	_, status, _ := c.head.start()
	var err error
	if c.status, err = strconv.Atoi(string(status)); err != nil {
		return fmt.Errorf("HTTP status %q: %w", status, err)
	}
	if c.body, err = readBody(c.br, &c.head, c.body[:0]); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// wrong adds to err the begin of the answer that it is about.
func (c *client) wrong(err error) error {
	return &wrongAnswer{err: err, begin: string(c.body[:min(len(c.body), 300)])}
}
