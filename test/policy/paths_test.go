package policy_test

import (
	"net/http"
	"strings"
	"testing"
)

// result of one way to a target.
type result int

const (
	served  result = iota // by the upstream
	refused               // "denied by policy"
	unseen                // as if it did not exist
	other
)

func (r result) String() string {
	return [...]string{"served", "refused", "hidden", "something else"}[r]
}

const policyDenied = "-31004"

// visit is one caller at one virtual server, in every form that clients have.
type visit struct {
	client *client
	newer  *session // 2025-11-25
	older  *session // 2025-03-26
	base   *visit   // the same caller where the gateway alone knows what exists
}

func (g *gateway) visit(t testing.TB, c *caller, path string) *visit {
	t.Helper()
	cl := g.as(t, c, path)
	return &visit{client: cl, newer: cl.legacy("2025-11-25"), older: cl.legacy("2025-03-26")}
}

// way is one path to a target. go asks for a name of it and tells the answer; it
// may ask more than once.
type way struct {
	title string
	sees  bool // the arguments are not part of the question
	ask   func(v *visit, name, args string) *reply
}

// method is how a target is called, and the params of a call.
func (t *target) method() string {
	switch {
	case t.kind == "resource":
		return "resources/read"
	case t.kind == "prompt":
		return "prompts/get"
	}
	return "tools/call"
}

func (t *target) params(name, args string) string {
	if t.kind == "resource" {
		return `"uri":` + quote(name)
	}
	return with(`"name":`+quote(name), args)
}

// ways are the paths to a target besides lists.
func (t *target) ways() (out []way) {
	add := func(title string, sees bool, ask func(v *visit, name, args string) *reply) {
		out = append(out, way{title, sees, ask})
	}
	if !t.template {
		add("call, modern", false, func(v *visit, name, args string) *reply {
			return v.client.modern(t.method(), t.params(name, args))
		})
		add("call, legacy", false, func(v *visit, name, args string) *reply {
			return v.newer.call(t.method(), t.params(name, args))
		})
		add("batch entry", false, func(v *visit, name, args string) *reply {
			return v.older.batched(t.method(), t.params(name, args))
		})
	}
	if t.kind == "tool" {
		add("call, invoke", false, (*visit).invoke)
	}
	switch {
	case t.original == "ask":
		// One that a client without questions cannot end.
		out = []way{{"retry with state", false, t.retry}}
	case t.template || t.kind == "prompt":
		ref := func(name string) string {
			if t.kind == "prompt" {
				return `"ref":{"type":"ref/prompt","name":` + quote(name) + `},"argument":{"name":"env","value":""}`
			}
			return `"ref":{"type":"ref/resource","uri":` + quote(name) + `},"argument":{"name":"path","value":""}`
		}
		add("completion, modern", true, func(v *visit, name, _ string) *reply {
			return v.client.modern("completion/complete", ref(name))
		})
		add("completion, legacy", true, func(v *visit, name, _ string) *reply {
			return v.newer.call("completion/complete", ref(name))
		})
	}
	if t.kind == "resource" && !t.template {
		add("subscription, legacy", true, func(v *visit, name, _ string) *reply {
			r := v.newer.call("resources/subscribe", `"uri":`+quote(name))
			if r.code() == "" {
				v.newer.call("resources/unsubscribe", `"uri":`+quote(name))
			}
			return r
		})
		add("subscription, modern", true, func(v *visit, name, _ string) *reply {
			h, honoured := v.client.listen(`{"resourceSubscriptions":[` + quote(name) + `]}`)
			h.close()
			r := &reply{Status: http.StatusOK, Header: http.Header{}, Body: `{"error":{"code":-32602,"message":` + quote("not honoured: "+strings.ReplaceAll(honoured, name, "NAME")) + `}}`}
			if honoured == `{"resourceSubscriptions":[`+quote(name)+`]}` {
				r.Body = `{"result":{}}`
			}
			return r
		})
	}
	return out
}

// retry makes a call that asks, and answers. What is refused is refused with a
// made-up state, too.
func (t *target) retry(v *visit, name, args string) *reply {
	first := v.client.modern(t.method(), t.params(name, args))
	state := at(first.message(), "result", "requestState")
	made := state == ""
	if made {
		state = `"made up"`
	}
	answers := ""
	for _, key := range keys(at(first.message(), "result", "inputRequests")) {
		answers = with(answers, quote(key)+`:{"action":"accept","content":{}}`)
	}
	again := v.client.modern(t.method(), with(t.params(name, args), `"requestState":`+state+`,"inputResponses":{`+answers+`}`))
	if made && first.shape() != again.shape() {
		v.client.t.Errorf("without state %v, and with one %v", first, again)
	}
	return again
}

// of tells what an answer is. Absent is the one for what does not exist.
func (r *reply) of(name, absentName string, absent *reply) result {
	like := func(r *reply, name string) string { return strings.ReplaceAll(r.shape(), name, "NAME") }
	switch {
	case r.Status == http.StatusOK && at(r.message(), "result") != "":
		return served
	case r.code() == policyDenied:
		return refused
	case absent != nil && like(r, name) == like(absent, absentName):
		return unseen
	}
	return other
}

// nowhere is a name of the same form that nothing has.
func (t *target) nowhere(name string) string {
	if t.kind == "resource" {
		return "nowhere:///" + strings.Repeat("z", len(name))
	}
	return "zzz" + strings.Repeat("z", len(name)-3)
}
