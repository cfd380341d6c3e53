package docs_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/config"
)

// The codes of the outcomes (docs/errors.md).
const (
	notThere = -32602
	denied   = -31004
)

// row is a line of the table below an example.
type row struct {
	subject   string
	claims    map[string]any // nil: it has an API key, or needs none
	name      string
	arguments string
	server    string
	outcome   string
}

func rows(t *testing.T, text string) (out []row) {
	t.Helper()
	for _, cells := range table(t, text, "who", "what", "outcome") {
		who, what := code(cells[0]), code(cells[1])
		r := row{subject: who[0], name: what[0], server: config.DefaultServer, outcome: cells[2]}
		if len(who) > 1 {
			if err := json.Unmarshal([]byte(who[1]), &r.claims); err != nil {
				t.Fatalf("%s: %v", cells[0], err)
			}
		}
		for _, more := range what[1:] {
			if strings.HasPrefix(more, "{") {
				r.arguments = more
			} else {
				r.server = more
			}
		}
		out = append(out, r)
	}
	return out
}

func TestTheExamplesOfThePolicyDoWhatTheirTablesSay(t *testing.T) {
	t.Parallel()
	examples := section(t, page(t, "policy.md"), "## Examples")
	found := headings.FindAllStringSubmatch(examples, -1)
	if len(found) < 6 {
		t.Fatalf("only %d examples", len(found))
	}
	for _, m := range found {
		t.Run(m[1], func(t *testing.T) {
			t.Parallel()
			text := section(t, examples, "### "+m[1])
			doc := block(t, text, "yaml", 0)
			for _, w := range parsed(t, doc).Warnings {
				t.Errorf("the document has a warning: %v", w.Error())
			}
			r := serve(t, doc, nil)
			seen := map[string]bool{}
			for _, is := range rows(t, text) {
				r.check(t, is)
				seen[is.outcome] = true
			}
			if len(seen) < 2 {
				t.Errorf("the table shows one outcome only: %v", seen)
			}
		})
	}
}

// check holds one line of a table against lists, calls and explain.
func (r *running) check(t *testing.T, is row) {
	t.Helper()
	who := r.credential(is.subject, is.claims)
	ran := r.calls()
	got := r.call(is.server, who, is.name, is.arguments)
	ran = r.calls() - ran
	why := r.why(t, is)
	listed := r.listed(is.server, who)
	switch is.outcome {
	case "allowed":
		if got.Error.Code != 0 || ran != 1 || !listed[why.Exposed] || why.Decision != "allow" && why.Decision != "depends" {
			t.Errorf("%+v: %s (%d calls ran, listed %v, explained %+v)", is, got.body, ran, listed, why)
		}
	case "denied":
		if got.Error.Code != denied || ran != 0 || !listed[why.Exposed] || why.Decision != "depends" {
			t.Errorf("%+v: %s (%d calls ran, listed %v, explained %+v)", is, got.body, ran, listed, why)
		}
	case "hidden":
		if got.Error.Code != notThere || ran != 0 || listed[is.name] || why.Decision != "hidden" {
			t.Errorf("%+v: %s (%d calls ran, listed %v, explained %+v)", is, got.body, ran, listed, why)
		}
		// One letter does not make another answer.
		other := is.name[:len(is.name)-1] + "~"
		unknown := r.call(is.server, who, other, is.arguments)
		if want := strings.ReplaceAll(unknown.body, other, is.name); got.body != want {
			t.Errorf("%+v: %s, but what does not exist is answered\n%s", is, got.body, want)
		}
	default:
		t.Errorf("what is %q?", is.outcome)
	}
}

// explanation is what explain says of the one target of a name.
type explanation struct{ Exposed, Decision string }

// why asks explain about a line of a table.
func (r *running) why(t *testing.T, is row) explanation {
	t.Helper()
	q := url.Values{"name": {is.name}, "server": {is.server}, "as": {is.subject}}
	for name, value := range is.claims {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		q.Add("claim", name+"="+string(raw))
		if a := r.doc.Auth; a != nil && len(a.JWT) > 0 && a.JWT[0].TenantClaim == name {
			q.Set("tenant", value.(string))
		}
	}
	all := r.explain(q)
	if len(all) != 1 || len(all[0].Targets) != 1 {
		t.Fatalf("%+v: explained as %+v", is, all)
	}
	return explanation{all[0].Targets[0].Exposed, all[0].Targets[0].Decision}
}

// calls is how many calls reached any upstream.
func (r *running) calls() (n int64) {
	for _, u := range r.upstreams {
		n += u.calls.Load()
	}
	return n
}
