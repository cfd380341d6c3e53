package north

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// post takes one POST through steps 2 to 4 and on to the Gateway.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, server string) {
	x := exchanges.Get().(*Exchange)
	out := &httpReply{w: w, rc: http.NewResponseController(w), json: true, deadline: h.o.WriteTimeout, major: uint8(r.ProtoMajor), minor: uint8(r.ProtoMinor)}
	x.Server, x.Header, x.out, x.sessions, x.handler = server, r.Header, out, h.sessions, h
	x.Trail.Began, x.Trail.Source = time.Now(), source(r)
	body := bodies.Get().(*[]byte)
	defer x.free()
	defer putBody(body) // the record is made of what is in it
	defer h.record(x)
	defer h.survive(x)

	p, err := h.gw.Identify(r)
	if err != nil {
		h.fail(x, err)
		return
	}
	x.Principal = p
	if err := h.admit(x); err != nil {
		h.fail(x, err)
		return
	}
	defer p.release()

	if err := negotiate(r, out); err != nil {
		h.fail(x, err)
		return
	}
	if err := h.read(out, r, body); err != nil {
		h.fail(x, err)
		return
	}
	x.Trail.In = int64(len(*body))
	h.message(r.Context(), x, *body)
}

// negotiate checks the media types; it decides the form of the answer.
func negotiate(r *http.Request, out *httpReply) error {
	ct := r.Header["Content-Type"]
	if len(ct) != 1 || ct[0] != "application/json" {
		media, _, err := mime.ParseMediaType(strings.Join(ct, ","))
		if err != nil || media != "application/json" {
			return fault.New(fault.BadMediaType, "Content-Type %q is not application/json", strings.Join(ct, ", "))
		}
	}
	var streamed bool
	if out.json, out.stream, streamed = mcp.Accepts(r.Header["Accept"]); streamed {
		out.json = false // errors with a status of their own are JSON all the same
	}
	if !out.json && !out.stream {
		out.json = true // an error must be written in some form
		return fault.New(fault.NotAcceptable, "the answer is application/json or text/event-stream, and the client accepts neither")
	}
	return nil
}

// message reads a POST's body: one message, or a batch where its revision has them.
func (h *Handler) message(ctx context.Context, x *Exchange, body []byte) {
	if wire.IsBatch(body) {
		h.batch(ctx, x, body)
		return
	}
	perr := wire.Parse(body, &x.Msg)
	modern, eerr := x.era()
	x.Era = mcp.Legacy
	if modern {
		x.Era, x.Revision = mcp.Modern, mcp.LatestModern
	}
	if err := cmp.Or(perr, eerr); err != nil {
		h.fail(x, err)
		return
	}
	if x.Era == mcp.Modern {
		h.modern(ctx, x)
		return
	}
	h.legacy(ctx, x)
}

// era decides by version metadata first, and the method second (checklist 5):
// only an initialize without modern metadata, or a request within a session, is
// legacy.
func (x *Exchange) era() (modern bool, err error) {
	versions := x.Header[mcp.HeaderProtocolVersion]
	if x.Msg.MetaVersion.Ok() {
		return true, nil
	}
	if len(versions) > 1 {
		return true, fault.New(fault.HeaderMismatch, "%s is given %d times", mcp.HeaderProtocolVersion, len(versions))
	}
	if len(versions) == 0 {
		return false, nil
	}
	switch rev, known := mcp.ParseRevision(versions[0]); {
	case known:
		return rev.Era() == mcp.Modern, nil
	case len(x.Header[mcp.HeaderSession]) > 0 || x.Msg.Method == mcp.Initialize:
		return false, nil
	}
	return true, nil
}
