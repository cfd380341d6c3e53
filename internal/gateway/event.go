package gateway

import (
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// listens reports whether anything that arrives before the answer is for the
// client: progress when it gave a token, log messages when it set a level.
func (o *outbound) listens() bool { return o.token || o.level() != "" }

// level is the lowest log level that this request wants, or "".
func (o *outbound) level() string {
	if o.x.Session != nil {
		return o.x.Session.LogLevel
	}
	m := &o.x.Msg
	s, err := wire.String(m.MetaLogLevel.Of(m.Raw))
	if err != nil {
		return ""
	}
	return s
}

// event relays one notification of the call, in its place before the answer.
// What this request did not ask for is dropped (checklist 62, 63, T30).
func (o *outbound) event(s *wire.Answer) error {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return nil //nolint:nilerr // a notification without a name is for nobody
	}
	var out []byte
	switch method {
	case mcp.Progress:
		token := o.northern(s)
		if token == nil {
			return o.v.byKey[o.t.Upstream].stray(s)
		}
		out = wire.Splice(nil, s.Raw, wire.Edit{Span: s.ProgressToken, With: token})
	case mcp.TasksStatus:
		if !o.isOwn(s) {
			return o.v.byKey[o.t.Upstream].stray(s)
		}
		out = append([]byte(nil), s.Raw...)
	case mcp.LogMessage:
		if !atLeast(at(s.Params.Of(s.Raw), levelPath), o.level()) {
			return nil
		}
		out = append([]byte(nil), s.Raw...)
	case mcp.ElicitationDone:
		id, err := wire.String(at(s.Params.Of(s.Raw), elicitationPath))
		if err != nil || !o.elicited[id] {
			return o.v.byKey[o.t.Upstream].stray(s)
		}
		out = append([]byte(nil), s.Raw...) // it belongs to a question of this call (checklist 101)
	default:
		return o.v.byKey[o.t.Upstream].stray(s)
	}
	safe, err := wire.LineSafe(nil, out)
	if err != nil {
		return nil //nolint:nilerr // it cannot be framed; the call itself goes on
	}
	_, err = o.x.Event(safe)
	return err
}

var (
	levelPath       = []string{"level"}
	elicitationPath = []string{"elicitationId"}
)

// overhear is for notifications that a call's stream brought and that are not the
// call's: that something changed is everybody's who listens, and all else nobody's.
func (g *Gateway) overhear(key string, u upstream) func(*wire.Answer) error {
	return func(s *wire.Answer) error {
		method, err := wire.String(s.Method.Of(s.Raw))
		if err != nil {
			return nil //nolint:nilerr // a notification without a name is for nobody
		}
		kind, changed := mcp.ParseChanged(method)
		switch {
		case changed:
			g.board.Changed(key, kind)
		case method == mcp.ResourceUpdated:
			if uri, err := wire.String(at(s.Params.Of(s.Raw), uriPath)); err == nil {
				g.board.Strayed(key, uri)
			}
		case method == mcp.Progress:
			u.Dropped("an upstream reported progress of nothing that asked for it; it is dropped")
		case method != mcp.LogMessage && method != mcp.Cancelled: // many log without being asked (checklist T30)
			u.Dropped("an upstream sent a notification that is for nobody; it is dropped")
		}
		return nil
	}
}

// atLeast reports whether a raw level is as severe as the wanted one.
func atLeast(raw []byte, want string) bool {
	have, err := wire.String(raw)
	if err != nil || want == "" {
		return false
	}
	rank := func(s string) int {
		for i, l := range mcp.LogLevels {
			if l == s {
				return i
			}
		}
		return -1
	}
	return rank(have) >= 0 && rank(have) >= rank(want)
}
