package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Authenticator tells who is calling, by what was configured when it was made
// (DESIGN section 11). It is safe for concurrent use. A changed document makes
// another one.
type Authenticator struct {
	issuers    map[string][]*issuer // by iss, in the order of the document
	algorithms []string             // of all issuers
	keys       map[digest]*Principal
	sets       []*keySet
	revoked    *revocations
	remembered *remembered
	failures   *failures
	required   []string
	anonymous  bool
	now        func() time.Time
	outcome    func(string)
}

// issuer is an Issuer with the set of its keys, which entries of the same issuer
// and address share.
type issuer struct {
	Issuer
	keys *keySet
}

// New returns an Authenticator, or everything that is wrong with the options. It
// reads nothing and starts nothing; see Run.
func New(o Options) (*Authenticator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		o.HTTP = ownClient()
	}
	a := &Authenticator{
		issuers: map[string][]*issuer{}, keys: map[digest]*Principal{},
		revoked: newRevocations(o.RevokedFile, o.Log), remembered: newRemembered(), failures: newFailures(),
		required: tidy(o.RequiredScopes), anonymous: o.Anonymous, now: o.Now, outcome: o.Outcome,
	}
	client := homebound(o.HTTP)
	shared := map[[2]string]*keySet{}
	for _, is := range o.Issuers {
		at := [2]string{is.Issuer, is.JWKSURL}
		if shared[at] == nil {
			shared[at] = newKeySet(is.Issuer, is.JWKSURL, client, o.Log)
			a.sets = append(a.sets, shared[at])
		}
		if is.ScopeClaim == "" {
			is.ScopeClaim = "scope"
		}
		is.Algorithms = tidy(is.Algorithms)
		a.issuers[is.Issuer] = append(a.issuers[is.Issuer], &issuer{Issuer: is, keys: shared[at]})
		a.algorithms = append(a.algorithms, is.Algorithms...)
	}
	a.algorithms = tidy(a.algorithms)
	for i := range o.APIKeys {
		a.keys[o.APIKeys[i].Hash] = o.APIKeys[i].principal()
	}
	return a, nil
}

// Inherit takes over what the Authenticator of the previous document knows: the
// keys of issuers that are in both, and the revoked credentials of the same file.
// Otherwise a reload while an identity provider is away would shut everybody out.
// Verified tokens are not taken over. It is called before Run, if at all.
func (a *Authenticator) Inherit(from *Authenticator) {
	for _, s := range a.sets {
		for _, f := range from.sets {
			if s.issuer == f.issuer && s.address == f.address {
				s.inherit(f)
			}
		}
	}
	if set := from.revoked.set.Load(); set != nil && a.revoked.file == from.revoked.file {
		a.revoked.set.CompareAndSwap(nil, set)
	}
}

// Open reads the file of revoked credentials, unless that was done. Run begins
// with it; who wants to know earlier whether the file is there calls it before.
func (a *Authenticator) Open() error { return a.revoked.open() }

// Run reads the key sets of the issuers, now and then hourly, and keeps the
// revoked credentials as their file says. It returns nil when ctx has ended and
// everything it started has, or at once the error of a file of revoked
// credentials that cannot be read at the start. It is called once.
func (a *Authenticator) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	if err := a.Open(); err != nil {
		for _, s := range a.sets {
			close(s.ended)
		}
		return err
	}
	if a.revoked.file != "" {
		all.Go(func() { a.revoked.watch(ctx) })
	}
	for _, s := range a.sets {
		all.Go(func() { s.run(ctx) })
	}
	<-ctx.Done()
	return nil
}

// Identify tells who sent a request, from its headers alone; source is the
// client's address without port. Every error is a *Refusal. It waits at most some
// seconds, and only for keys that Run is about to read or for its turn after too
// many failures of the same source; for a token that it knows it does not wait,
// lock or allocate, and it returns the same principal.
func (a *Authenticator) Identify(h http.Header, source string) (*Principal, error) {
	p, outcome, refusal := a.identify(h, source)
	if refusal != nil {
		outcome = refusal.outcome
	}
	if a.outcome != nil {
		a.outcome(outcome)
	}
	if refusal != nil {
		return nil, refusal
	}
	return p, nil
}

func (a *Authenticator) identify(h http.Header, source string) (*Principal, string, *Refusal) {
	raw, refusal := bearer(h["Authorization"])
	if refusal == refusedMissing && a.anonymous {
		return anonymous, outcomeAnonymous, nil
	}
	if refusal != nil {
		return nil, "", refusal
	}
	if a.revoked.open() != nil {
		return nil, "", refusedUnread
	}
	// The bytes are only read, so that they need not be copied.
	d := sha256.Sum256(unsafe.Slice(unsafe.StringData(raw), len(raw)))
	now := a.now()
	if p := a.keys[d]; p != nil {
		return p, outcomeOK, a.admit(p, now)
	}
	if p := a.remembered.verified(d, now); p != nil {
		return p, outcomeCached, a.admit(p, now)
	}
	if len(a.issuers) == 0 {
		return nil, "", refusedKey
	}
	if a.remembered.refused(d, now) {
		return nil, "", refusedSignature
	}
	p, refusal := a.verify(raw, d, source, now)
	if refusal != nil {
		return nil, "", refusal
	}
	return p, outcomeOK, a.admit(p, now)
}

// admit is asked for every credential that is genuine, on every request.
func (a *Authenticator) admit(p *Principal, now time.Time) *Refusal {
	switch {
	case !p.Expires.IsZero() && !now.Before(p.Expires) && p.signed == nil:
		return refusedKeyDay
	case !p.Expires.IsZero() && !now.Before(p.Expires):
		return refusedExpired
	case a.revoked.hold(p):
		return refusedRevoked
	}
	for _, s := range a.required {
		if _, has := slices.BinarySearch(p.Scopes, s); !has {
			return a.lacking(p)
		}
	}
	return nil
}

func (a *Authenticator) lacking(p *Principal) *Refusal {
	var missing []string
	for _, s := range a.required {
		if _, has := slices.BinarySearch(p.Scopes, s); !has {
			missing = append(missing, s)
		}
	}
	return lacking(a.required, missing)
}

// Check tells whether the principal would still be let in: for streams that stand
// and calls that last. The error is a *Refusal: its credential has expired or was
// revoked, the key that signed it was withdrawn, or this Authenticator, made from
// a newer document than the one that let it in, does not know it. It neither waits
// nor allocates while all is well.
func (a *Authenticator) Check(p *Principal) error {
	if r := a.check(p); r != nil {
		return r
	}
	return nil
}

func (a *Authenticator) check(p *Principal) *Refusal {
	switch {
	case p == local:
		return nil
	case p == anonymous && a.anonymous:
		return nil
	case p == nil || p == anonymous:
		return refusedMissing
	case a.revoked.open() != nil:
		return refusedUnread
	case p.signed == nil:
		// As the document has it now: its end, its subject, its scopes.
		same := a.keys[p.TokenHash]
		if same == nil || same.Key != p.Key {
			return refusedGone
		}
		return a.admit(same, a.now())
	}
	if r := a.trusts(p); r != nil {
		return r
	}
	return a.admit(p, a.now())
}

// trusts refuses a token unless the document still accepts those of its issuer for
// its audience, and the issuer still publishes its key.
func (a *Authenticator) trusts(p *Principal) *Refusal {
	refusal := refusedGone
	for _, is := range a.issuers[p.Issuer] {
		if !slices.Contains(p.audience, is.Audience) {
			continue
		}
		if set := is.keys.now.Load(); set == nil || set.holds(p.signed) {
			return nil
		}
		refusal = refusedWithdrawn
	}
	return refusal
}

// String keeps an Authenticator from being printed with what it remembers.
func (a *Authenticator) String() string {
	names := make([]string, 0, len(a.issuers))
	for n := range a.issuers {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Sprintf("auth of %d API keys and issuers %s", len(a.keys), strings.Join(names, ", "))
}
