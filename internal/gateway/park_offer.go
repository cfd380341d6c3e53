package gateway

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// offer answers a request with the questions of its call (checklist 7.3).
func (o *outbound) offer(offer *relay.Offer) error {
	requests := []byte{'{'}
	for _, q := range offer.Asked {
		requests = appendRequest(requests, q.Key, q.Method, q.Params)
	}
	return o.inputRequired(append(requests, '}'), relay.Ticket{Kind: relay.Parked, Round: offer.Round, Instance: o.g.storage.Instance, ID: offer.ID})
}

// appendRequest appends one member of inputRequests.
func appendRequest(dst []byte, key, method string, params []byte) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	dst = append(wire.AppendString(dst, key), `:{"method":`...)
	dst = wire.AppendString(dst, method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// inputRequired answers a request with questions, under a state that brings the
// retry back here. Like every question it has no caching hints (checklist 42).
func (o *outbound) inputRequired(requests []byte, t relay.Ticket) error {
	t.Arguments = relay.Digest(sentArguments(o.x))
	raw := append([]byte(`{"jsonrpc":"2.0","id":0,"result":{"resultType":"input_required","inputRequests":`), requests...)
	raw = append(raw, `,"requestState":`...)
	raw = wire.AppendString(raw, o.g.sealer.SealTicket(t, o.binding()))
	m := o.v.byKey[o.t.Upstream]
	plan := o.g.plan(o.x, o.v, m, o.link)
	plan.Default = nil
	out, err := plan.Apply(nil, append(raw, '}', '}'))
	if err != nil {
		return invalid(m, err)
	}
	return o.x.Reply(http.StatusOK, out)
}

// inputTimeout is how long a question to the user may stay open.
func (g *Gateway) inputTimeout() time.Duration { return time.Duration(g.doc.Limits.InputTimeout) }

// maxElicitations bounds what one refusal can send a user to.
const maxElicitations = 32

// elicitURLs turns a legacy upstream's refusal to run a call before the user has
// been at some URLs into what each era has for it (checklist 6.2, -32042). It
// reports whether the refusal is to be relayed as it is.
func (o *outbound) elicitURLs(s *wire.Answer) (relayed bool, err error) {
	if o.x.Era == mcp.Legacy {
		caps, err := mcp.ParseClientCaps(o.x.Session.Capabilities)
		if err == nil && caps.Has(mcp.CapElicitationURL) && o.x.Revision >= mcp.V20251125 {
			return true, nil
		}
		return false, o.cannot("an interaction at a URL, which this client cannot be asked for")
	}
	caps, err := mcp.ParseClientCaps(o.x.Msg.MetaCaps.Of(o.x.Msg.Raw))
	if err != nil || !caps.Has(mcp.CapElicitationURL) {
		return false, fault.New(fault.MissingCapability, "upstream %q needs an interaction at a URL", o.t.Upstream).
			WithData([]byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`))
	}
	t := relay.Ticket{Kind: relay.Reissue, Round: 1, ID: "g" + strings.ToLower(rand.Text()[:6])}
	if before, err := wire.String(o.x.Msg.RequestState.Of(o.x.Msg.Raw)); err == nil {
		if last, err := o.g.sealer.OpenTicket(before, o.binding()); err == nil && last.Kind == relay.Reissue {
			t.Round = last.Round + 1
		}
	}
	if t.Round > maxRounds {
		return false, o.g.notAsked(o.x, o.v, o.v.byKey[o.t.Upstream], relay.ErrRounds)
	}
	requests, whole := []byte{'{'}, true
	err = wire.Elements(at(s.ErrorData.Of(s.Raw), elicitationsPath), func(e []byte) bool {
		mode, merr := wire.String(at(e, modePath))
		_, uerr := wire.String(at(e, urlPath))
		if whole = merr == nil && uerr == nil && mode == "url" && t.Count < maxElicitations; !whole {
			return false
		}
		t.Count++
		requests = appendRequest(requests, t.Key(t.Count), "elicitation/create", northern(e))
		return true
	})
	if err != nil || !whole || t.Count == 0 {
		return false, fault.New(fault.InvalidAnswer, "upstream %q asks for an interaction at a URL and does not say which", o.t.Upstream).
			WithHint("tell the upstream's owner")
	}
	return false, o.inputRequired(append(requests, '}'), t)
}

var (
	elicitationsPath = []string{"elicitations"}
	modePath         = []string{"mode"}
)

// reissued looks at what the user said to a refusal's URLs. It reports whether
// the request is answered; otherwise the call is made anew, for it has not run.
func (o *outbound) reissued(t *relay.Ticket, in relay.Inputs) (answered bool, err error) {
	declined := false
	for n := 1; n <= t.Count; n++ {
		answer := in.Get(t.Key(n))
		if answer == nil {
			continue // the upstream will say so again
		}
		action, err := wire.String(at(answer, actionPath))
		if err != nil {
			return true, ended(relay.ErrInputs)
		}
		declined = declined || action != "accept"
	}
	if declined {
		return true, o.g.gaveUp(o.x, o.v, o.v.byKey[o.t.Upstream], "upstream \""+o.t.Upstream+"\" needs an interaction at a URL, which the user declined")
	}
	return false, nil
}
