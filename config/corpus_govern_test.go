package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var someHash = "sha256:" + strings.Repeat("1", 64)

func init() { maps.Copy(badDocuments, badGovernance) }

// badGovernance is the part of badDocuments about who may do what, and about durable
// tasks.
var badGovernance = map[string]badDocument{
	"auth for nobody": {"auth: {jwt: [], api_keys: []}", []string{
		"1:1: auth: names nobody who could call; give it jwt or api_keys, or remove it",
	}, true},
	"issuers": {"auth:\n  jwt:\n    - {issuer: 'http://idp.example', audience: '', algorithms: []}\n    - {issuer: 'ftp://x', audience: a, algorithms: [HS256, none, RS256], jwks_url: 'http://keys.example/'}\n    - {audience: a}\n", []string{
		`3:16: auth.jwt[0].issuer: must be https, or on this machine, not "http://idp.example"`,
		"3:48: auth.jwt[0].audience: must not be empty",
		"3:64: auth.jwt[0].algorithms: names none; name those that the issuer signs with, such as RS256",
		`4:16: auth.jwt[1].issuer: must be an absolute http or https URL without user name and fragment, not "ftp://x"`,
		`4:53: auth.jwt[1].algorithms[0]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, not "HS256"`,
		`4:60: auth.jwt[1].algorithms[1]: must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, not "none"`,
		`4:84: auth.jwt[1].jwks_url: must be https, or on this machine, not "http://keys.example/"`,
		"5:7: auth.jwt[2]: issuer is missing",
		"5:7: auth.jwt[2]: algorithms is missing",
	}, false},
	"keys of the same name and hash": {"auth:\n  api_keys:\n    - {name: a, hash: '" + someHash + "', subject: s}\n    - {name: a, hash: '" + someHash + "', subject: ''}\n", []string{
		"4:14: auth.api_keys[1].name: is the name of auth.api_keys[0] already",
		"4:23: auth.api_keys[1].hash: is the hash of auth.api_keys[0] already; a key stands for one caller",
		"4:107: auth.api_keys[1].subject: must not be empty",
	}, false},
	"a key's values": {"auth: {api_keys: [{name: b, hash: '" + someHash + "', subject: s, expires: 2026-02-30, scopes: ['a b']}]}", []string{
		`1:131: auth.api_keys[0].expires: is no day of the calendar, not "2026-02-30"`,
		`1:152: auth.api_keys[0].scopes[0]: a scope has no spaces, quotes, backslashes or characters beyond ASCII, not "a b"`,
	}, true},
	"a key's hash": {"auth: {api_keys: [{name: a, hash: 'sha256:abc', subject: s, expires: soon}]}", []string{
		`1:35: auth.api_keys[0].hash: must be of the form ^sha256:[0-9a-f]{64}$, not "sha256:abc"`,
		`1:70: auth.api_keys[0].expires: must be of the form ^[0-9]{4}-[0-9]{2}-[0-9]{2}$, not "soon"`,
	}, false},
	"required scopes": {"auth: {required_scopes: ['', 'ü'], revoked: nowhere.txt, api_keys: [{name: a, hash: '" + someHash + "', subject: s}]}", []string{
		"1:26: auth.required_scopes[0]: a scope has no spaces, quotes, backslashes or characters beyond ASCII",
		`1:30: auth.required_scopes[1]: a scope has no spaces, quotes, backslashes or characters beyond ASCII, not "ü"`,
		`1:45: auth.revoked: cannot be read: no such file or directory: "nowhere.txt"`,
	}, true},
	"public url": {"public_url: 'https://h/?a=1'", []string{
		"1:13: public_url: must not have a query",
	}, true},
	"hooks": {"hooks:\n  - {id: a, url: 'https://h/', events: []}\n  - {id: a, url: 'https://h/', events: [tool.before, tool.before]}\n", []string{
		"2:40: hooks[0].events: names none, so that the hook is never asked",
		"3:10: hooks[1].id: is the id of hooks[0] already",
		"3:40: hooks[1].events: names tool.before twice",
	}, true},
	"a hook's values": {"hooks: [{id: a, url: 'h', events: [tool.during], timeout: 0s, max_bytes: 0, on_error: maybe}]", []string{
		`1:22: hooks[0].url: must be an absolute http or https URL without user name and fragment, not "h"`,
		`1:36: hooks[0].events[0]: must be one of tool.before, tool.after, prompt.before, prompt.after, resource.before, resource.after, not "tool.during"`,
		`1:59: hooks[0].timeout: must be more than zero, not "0s"`,
		`1:74: hooks[0].max_bytes: must be at least 1, not "0"`,
		`1:87: hooks[0].on_error: must be one of deny, allow, not "maybe"`,
	}, false},
	"audit to nowhere": {"audit: {}", []string{
		"1:1: audit: goes nowhere; give it file, or stdout: on",
	}, true},
	"audit to two places": {"audit: {file: a.jsonl, stdout: on}", []string{
		"1:32: audit.stdout: is given together with file; keep one of them",
	}, true},
	"audit without its folder": {"audit: {file: nowhere/a.jsonl}", []string{
		`1:15: audit.file: its folder does not exist: "nowhere/a.jsonl"; make the folder`,
	}, true},
	"audit to a folder": {"audit: {file: testdata}", []string{
		`1:15: audit.file: is a folder, not a file: "testdata"`,
	}, true},
	"audit with an empty key": {"audit: {stdout: on, key: ''}", []string{
		"1:26: audit.key: must not be empty; remove the key for a chain without one",
	}, true},
	"rules": {"policy:\n  - {id: a, allow: {tools: ['*']}}\n  - {id: a, allow: {tools: ['*']}}\n  - {id: c, allow: {tools: ['*']}, when: '1 + 1'}\n", []string{
		"3:10: policy[1].id: policy[0] has this id already",
		"4:42: policy[2].when: at 1:1 of the condition: the condition is of type int, it has to be a bool",
	}, true},
	"client credentials": {"upstreams: {a: {url: 'https://h/', credentials: {client_credentials: {token_url: 'http://idp.example/token', client_id: c, client_secret: '', scopes: ['a b']}}}}", []string{
		`1:82: upstreams.a.credentials.client_credentials.token_url: must be https, or on this machine, not "http://idp.example/token"`,
		"1:139: upstreams.a.credentials.client_credentials.client_secret: must not be empty",
		`1:152: upstreams.a.credentials.client_credentials.scopes[0]: a scope has no spaces, quotes, backslashes or characters beyond ASCII, not "a b"`,
	}, true},
	"exchange without tokens": {"upstreams: {a: {url: 'https://h/', credentials: {exchange: {token_url: 'x', client_id: c, client_secret: s, audience: u}}}}", []string{
		"1:50: upstreams.a.credentials.exchange: callers have no tokens that could be exchanged; set up auth.jwt",
		`1:72: upstreams.a.credentials.exchange.token_url: must be an absolute http or https URL without user name and fragment, not "x"`,
	}, false},
	"passthrough without tokens": {"upstreams: {b: {url: 'https://h/', credentials: {passthrough: {audience: u}}}}", []string{
		"1:50: upstreams.b.credentials.passthrough: callers have no tokens that could be passed on; set up auth.jwt",
	}, true},
	"two credentials": {"upstreams: {a: {url: 'https://h/', credentials: {bearer: a, header: {name: X-Key, value: v}}}}", []string{
		"1:36: upstreams.a.credentials: holds bearer and header; keep one of them",
	}, false},
	"durable bounds": {"durable: {max_runtime: 2h, max_retention: 1h}", []string{
		"1:43: durable.max_retention: is less than durable.max_runtime, 2h0m0s; an outcome is kept at least as long as the task may run",
	}, true},
	"durable at a legacy upstream": {"upstreams: {a: {url: 'https://h/', era: legacy, durable: {pin: '" + someHash + "'}}}", []string{
		"1:49: upstreams.a.durable: durable tasks need revision 2026-07-28, and era is legacy; remove one of the two",
	}, true},
	"durable in each caller's name": {"auth: {jwt: [{issuer: 'https://idp.example', audience: a, algorithms: [RS256]}]}\nupstreams: {a: {url: 'https://h/', credentials: {passthrough: {audience: a}}, durable: {pin: '" + someHash + "'}}}", []string{
		"2:79: upstreams.a.durable: what was pinned is looked at in nobody's name, and these credentials are each caller's own; use bearer, header or client_credentials",
	}, true},
	"a stateless child": {"upstreams: {a: {command: [x], durable: {pin: '" + someHash + "', session: stateless}}}", []string{
		"1:130: upstreams.a.durable.session: a child process keeps its state to itself, and nothing can be bound to the next one; write strict",
	}, true},
	"rates": {"rate: {global: 5, per_principal: 1/y, burst: 0}", []string{
		`1:16: rate.global: must be a rate such as "10/s", "600/m" or "1000/h", not a number`,
		`1:34: rate.per_principal: must be a rate such as "10/s", "600/m" or "1000/h", not "1/y"`,
		`1:46: rate.burst: must be at least 1, not "0"`,
	}, false},
}

func TestWarningsTellWhatIsUnwiseInGovernance(t *testing.T) {
	doc, err := Parse("penstock.yaml", []byte(`public_url: "http://gw.example.com/"
auth:
  jwt: [{issuer: "https://idp.example", audience: a, algorithms: [RS256]}]
  api_keys:
    - {name: k, hash: "sha256:`+strings.Repeat("0", 64)+`", subject: s}
    - {name: l, hash: "`+someHash+`", subject: s, expires: 2020-01-01}
hooks: [{id: h, url: "http://hook.example/", events: [tool.before]}]
audit: {stdout: on, key: short}
policy:
  - {id: all, allow: {tools: ["*"]}}
  - {id: none, who: {tenant: [t]}, upstream: zz, deny: {tools: ["*"]}}
durable: {max_routes: 1, max_routes_per_caller: 2, enabled: off}
upstreams:
  a: {url: "https://h/", credentials: {passthrough: {audience: a}}}
  b: {url: "https://h/", durable: {pin: "`+someHash+`"}}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`1:13: public_url: clients are told to send their tokens over http in clear text; use https`,
		`5:23: auth.api_keys[0].hash: is the hash of no key, so nobody can call with it; penstock key new prints a key and its hash`,
		`6:119: auth.api_keys[1].expires: the key has expired`,
		`7:22: hooks[0].url: arguments and results travel over http in clear text; use https`,
		`8:26: audit.key: a key of less than 32 bytes can be guessed; use 32 random bytes or more`,
		`8:26: audit.key: the secret stands in the file; take it from the environment: ${NAME}`,
		`11:46: policy[1].upstream: no upstream is named like "zz"`,
		`12:49: durable.max_routes_per_caller: is more than durable.max_routes, 1, which bounds all callers together`,
		`14:40: upstreams.a.credentials.passthrough: the upstream gets a token that is good for this gateway, too; use exchange`,
		`15:26: upstreams.b.durable: has no effect while durable.enabled is off`,
	}
	if diff := cmp.Diff(want, lines(doc.Warnings)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
