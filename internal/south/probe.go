package south

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// connect finds out what the upstream is, once for all who ask at the same
// time. A failure is told to them and not kept: the next caller asks again. What
// the upstream answered to the credential of one caller is no answer to another,
// who then asks with its own.
func (u *Upstream) connect(ctx context.Context) (*Info, error) {
	f, joined, err := u.contact(ctx, true)
	if err != nil {
		return nil, err
	}
	i, err := u.learn(ctx, f)
	if err == nil || !joined || !u.perCaller() || !f.refused() {
		return i, err
	}
	if f, _, err = u.contact(ctx, false); err != nil {
		return nil, err
	}
	return u.learn(ctx, f)
}

// contact is one probe that callers may wait for together.
type contact struct {
	done chan struct{}
	err  error // set before done is closed
}

// refused reports whether the probe failed by what was answered to it.
func (f *contact) refused() bool {
	select {
	case <-f.done:
		return f.err != nil && transportOnly(f.err) == nil
	default:
		return false
	}
}

// contact returns the probe in flight, or a new one with the credential of ctx;
// joined tells which. Others wait for the new one if there was none and share is set.
func (u *Upstream) contact(ctx context.Context, share bool) (f *contact, joined bool, err error) {
	u.probing.Lock()
	defer u.probing.Unlock()
	if f = u.probing.contact; f != nil && share {
		return f, true, nil
	}
	if err := u.ctx.Err(); err != nil {
		return nil, false, fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is being closed", u.o.Key)
	}
	f = &contact{done: make(chan struct{})}
	if share {
		u.probing.contact = f
	}
	u.work.Go(func() {
		f.err = u.probe(borrowed{u.ctx, ctx})
		u.probing.Lock()
		if u.probing.contact == f {
			u.probing.contact = nil
		}
		u.probing.Unlock()
		close(f.done)
	})
	return f, false, nil
}

// learn waits for a probe, as long as ctx allows.
func (u *Upstream) learn(ctx context.Context, f *contact) (*Info, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q has not answered yet", u.o.Key).WithHint("nothing ran; try again")
	}
	if i := u.info.Load(); i != nil && u.known() {
		return i, nil
	}
	if f.err == nil {
		return nil, fault.New(fault.UpstreamUnavailable, "upstream %q is not connected", u.o.Key).WithHint("nothing ran; try again")
	}
	return nil, nothingRan(f.err)
}

// probe asks the upstream what it speaks (checklist 112 to 115, T7, T8) and
// stores the answer. Only certainty is stored.
func (u *Upstream) probe(ctx context.Context) error {
	if u.child != nil {
		return u.child.start(ctx)
	}
	if u.o.Era != mcp.Legacy {
		i, legacy, err := u.discover(ctx)
		if err == nil && i != nil {
			u.found(i)
			return nil
		}
		if u.o.Era == mcp.Modern || !legacy {
			if err == nil {
				err = fault.New(fault.InvalidAnswer, "upstream %q does not speak %s", u.o.Key, mcp.LatestModern).WithHint("set its era to auto or legacy")
			}
			return u.fail(err)
		}
	}
	w, err := u.initialize(ctx, "")
	if err != nil {
		return u.fail(err)
	}
	if u.perCaller() {
		u.delete(ctx, w) // it is this caller's, and nobody else's
	} else if old := u.spare.Swap(w); old != nil {
		u.delete(ctx, old)
	}
	i := w.init
	u.found(&i)
	return nil
}

func (u *Upstream) found(i *Info) {
	back := u.breaker.state() != "closed"
	u.breaker.reset()
	if u.setInfo(i); back {
		u.changed()
	}
}

// forgetEra makes the next caller probe again: what was known no longer holds.
func (u *Upstream) forgetEra() {
	if u.child != nil {
		u.child.forget()
		return
	}
	if u.o.Era == mcp.EraUnknown {
		u.info.Store(nil)
	}
	u.wake()
}

// Forget drops what is known of the upstream's era, so that the next Link
// probes it again; for an upstream that refused the version it had announced.
func (u *Upstream) Forget() { u.forgetEra() }

// discover sends server/discover. Info is nil when the upstream is not modern;
// legacy then says whether initialize is worth trying.
func (u *Upstream) discover(ctx context.Context) (i *Info, legacy bool, err error) {
	id := u.nextID(nil)
	body := u.discoverBody(id)
	a := newAnswer(ctx, u, u.o.ProbeTimeout)
	defer a.Close()
	h := head{method: mcp.Discover, version: mcp.LatestModern.String()}
	resp, err := u.message(a.ctx, http.MethodPost, body, &h)
	if err != nil {
		// Silence after the request was taken: some old servers never answer
		// what they do not know. Nothing is concluded unless initialize works.
		return nil, fault.From(err).Code == fault.UpstreamTimeout, err
	}
	status := resp.status
	if err := a.read(u.modern, &Request{Method: mcp.Discover, ID: id}, resp, &h); err != nil {
		switch {
		case notTelling(status):
			return nil, false, err
		case fault.From(err).Code == fault.ConnectionLost:
			return nil, false, err
		}
		return nil, true, err
	}
	if a.Whole == nil {
		return nil, false, a.invalid(nil, "upstream %q answered server/discover with more than %d bytes", u.o.Key, window)
	}
	s := &a.Scan
	if s.Error.Ok() {
		switch fault.Code(s.ErrorCode) {
		case fault.HeaderMismatch, fault.MissingCapability:
			return nil, false, a.invalid(nil, "upstream %q refused server/discover with code %d", u.o.Key, s.ErrorCode)
		}
		if notTelling(status) {
			return nil, false, a.refused(resp, "application/json")
		}
		return nil, true, fault.New(fault.InvalidAnswer, "upstream %q does not know server/discover (code %d)", u.o.Key, s.ErrorCode)
	}
	if i = modernInfo(s); i == nil {
		return nil, true, fault.New(fault.InvalidAnswer, "upstream %q does not list %s", u.o.Key, mcp.LatestModern)
	}
	if text(s.CacheScope.Of(s.Raw)) != "public" {
		u.impersonal(i)
	}
	return i, false, nil
}

// impersonal takes out of an upstream's description what may have been written for
// the caller whose credential it was asked with: others are told the same.
func (u *Upstream) impersonal(i *Info) {
	if u.perCaller() {
		i.Instructions = ""
	}
}

func (u *Upstream) discoverBody(id []byte) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":`...)
	body = append(body, u.o.ClientInfo...)
	return append(body, `,"io.modelcontextprotocol/clientCapabilities":{}}}}`...)
}

// modernInfo is what a DiscoverResult says, or nil when it does not list our version.
func modernInfo(s *wire.Answer) *Info {
	if !listsModern(s.SupportedVersions.Of(s.Raw)) {
		return nil
	}
	return &Info{
		Era: mcp.Modern, Revision: mcp.LatestModern,
		Capabilities: object(s.Capabilities.Of(s.Raw)),
		Instructions: text(s.Instructions.Of(s.Raw)),
		ServerInfo:   object(s.MetaServerInfo.Of(s.Raw)),
	}
}

// notTelling reports whether an HTTP status says nothing of the era (checklist T8).
func notTelling(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= 500
}

func listsModern(raw []byte) (yes bool) {
	err := wire.Elements(raw, func(e []byte) bool {
		if v, err := wire.String(e); err == nil && v == mcp.LatestModern.String() {
			yes = true
		}
		return true
	})
	return yes && err == nil
}

// object returns a copy of a raw JSON object, or nil for anything else.
func object(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return append([]byte(nil), raw...)
}

func text(raw []byte) string {
	s, err := wire.String(raw)
	if err != nil {
		return ""
	}
	return s
}

func hasMember(obj []byte, name string) (yes bool) {
	if len(obj) == 0 {
		return false
	}
	err := wire.Members(obj, func(n, _ []byte) bool {
		yes = yes || string(n) == name
		return true
	})
	return yes && err == nil
}

// initialize makes one legacy handshake (checklist 130 to 132).
func (u *Upstream) initialize(ctx context.Context, caps string) (*wireSession, error) {
	id := u.nextID(nil)
	body := u.initializeBody(id, caps)
	a := newAnswer(ctx, u, u.o.ProbeTimeout)
	defer a.Close()
	var h head
	resp, err := u.message(a.ctx, http.MethodPost, body, &h)
	if err != nil {
		return nil, err
	}
	w := &wireSession{id: resp.session}
	probe := Link{Upstream: u, Era: mcp.Legacy, session: &session{u: u}}
	probe.session.live.Store(w)
	if err := a.read(&probe, &Request{Method: mcp.Initialize, ID: id}, resp, &h); err != nil {
		return nil, err
	}
	s := &a.Scan
	if a.Whole == nil {
		return nil, a.invalid(nil, "upstream %q answered initialize with more than %d bytes", u.o.Key, window)
	}
	i, err := u.legacyInfo(s)
	if err != nil {
		return nil, err
	}
	w.init = *i
	if err := validSessionID(w.id); err != nil {
		return nil, a.invalid(err, "upstream %q gave a malformed session id", u.o.Key)
	}
	ack, err := u.message(a.ctx, http.MethodPost, []byte(initializedBody), &head{session: w.id, version: w.version()})
	if err != nil {
		return nil, err
	}
	drain(ack.body)
	return w, nil
}

const initializedBody = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

func (u *Upstream) initializeBody(id []byte, caps string) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"initialize","params":{"protocolVersion":"`+mcp.LatestLegacy.String()+`","capabilities":`+cmp.Or(caps, "{}")+`,"clientInfo":`...)
	body = append(body, u.o.ClientInfo...)
	return append(body, `}}`...)
}

// legacyInfo is what the answer to initialize says.
func (u *Upstream) legacyInfo(s *wire.Answer) (*Info, error) {
	if s.Error.Ok() {
		return nil, fault.Wrap(errAnswered, fault.UpstreamUnavailable, "upstream %q refused initialize with code %d: %s", u.o.Key, s.ErrorCode, text(s.ErrorMessage.Of(s.Raw)))
	}
	rev, ok := mcp.ParseRevision(text(s.ProtocolVersion.Of(s.Raw)))
	if !ok || rev.Era() != mcp.Legacy {
		return nil, u.invalid(nil, "upstream %q chose protocol version %s, which is not spoken here", u.o.Key, s.ProtocolVersion.Of(s.Raw))
	}
	i := &Info{
		Era: mcp.Legacy, Revision: rev,
		Capabilities: object(s.Capabilities.Of(s.Raw)),
		Instructions: text(s.Instructions.Of(s.Raw)),
		ServerInfo:   object(s.ServerInfo.Of(s.Raw)),
	}
	u.impersonal(i)
	return i, nil
}

// validSessionID holds an upstream's session id to visible ASCII (checklist 87).
func validSessionID(id string) error {
	if len(id) > 1024 {
		return errors.New("longer than 1024 bytes")
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return errors.New("not visible ASCII")
		}
	}
	return nil
}
