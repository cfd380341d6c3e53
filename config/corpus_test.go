package config

// goodDocuments are accepted by the loader and by the schema.
var goodDocuments = map[string]string{
	"empty":               ``,
	"comment only":        "# nothing yet\n",
	"header only":         "---\n",
	"one upstream":        "upstreams: {a: {url: 'http://127.0.0.1:3001/mcp'}}",
	"json":                "{\n\t\"upstreams\": {\"a\": {\"url\": \"https://h.example/mcp?x=1\", \"headers\": {\"X-Team\": \"a\\/b\"}}}\n}",
	"windows line ends":   "listen: 127.0.0.1:0\r\nshutdown: 5s\r\n",
	"byte order mark":     "\xef\xbb\xbflisten: 127.0.0.1:0\n",
	"anonymous":           "listen: 0.0.0.0:8080\nallow_anonymous: on\n",
	"ipv6 loopback":       "listen: '[::1]:8080'",
	"toggle as boolean":   "servers: {default: {origin_tag: false}}",
	"toggle as word":      "servers: {default: {origin_tag: off}}",
	"toggle in quotes":    "servers: {default: {origin_tag: 'off'}}",
	"admin off":           "admin: off",
	"admin false":         "admin: false",
	"admin socket":        "admin: unix:/run/p.sock",
	"state memory":        "state: 'memory:'",
	"state sqlite":        "state: sqlite:/var/lib/p.db",
	"state postgres":      "state: postgres://u:p@db/penstock?sslmode=require",
	"size as number":      "limits: {request_bytes: 65536}",
	"size with unit":      "limits: {request_bytes: 64KiB, cache_bytes: 1GiB, header_bytes: 100B}",
	"number by variable":  "limits: {sessions: \"${N:-7}\"}",
	"word by variable":    "upstreams: {a: {url: 'http://h/', era: \"${ERA:-modern}\"}}",
	"literal dollar":      "servers: {default: {instructions: 'costs $${5}'}}",
	"block text":          "servers:\n  default:\n    instructions: |\n      one\n      two\n",
	"prefixed with dash":  "upstreams: {gateway-one: {url: 'http://h/'}, gateway-two: {url: 'http://i/'}}\nservers: {default: {naming: prefixed}}",
	"passthrough":         "upstreams: {a: {url: 'http://h/'}, b: {url: 'http://i/'}}\nservers: {p: {naming: passthrough, upstreams: [a]}, q: {}}",
	"alias":               "upstreams: {a: {url: 'http://h/'}}\nservers: {default: {aliases: {Deploy.It_now: {upstream: a, tool: start}}}}",
	"expose":              "servers: {default: {expose: {tools: {allow: ['a__*', 'x?'], deny: []}, prompts: {}, resources: {allow: ['file:///*']}}}}",
	"namespace":           "upstreams: {a: {url: 'http://h/', namespace: gh}}",
	"credentials header":  "upstreams: {a: {url: 'http://h/', credentials: {header: {name: X-Key, value: \"${K:-v}\"}}}}",
	"client certificates": "upstreams: {a: {url: 'https://h/', tls: {ca: testdata/empty.pem, cert: testdata/empty.pem, key: testdata/empty.pem}}}",
	"proxies":             "upstreams: {a: {url: 'https://h/', proxy: 'http://u:p@proxy:3128'}, b: {url: 'https://h/', proxy: 'socks5://127.0.0.1:1080'}}",
	"upstream bounds":     "upstreams: {a: {url: 'https://h/', timeout: 1m30s, max_concurrent: 4, breaker: {failures: 1, open: 250ms}, owner: platform}}",
	"hosts and origins":   "allowed_hosts: [gw.example.com, 'h:8080']\nallowed_origins: ['https://app.example.com', 'http://localhost:3000', '*']",
	"key in quotes":       "upstreams: {\"1\": {url: 'http://h/'}}",
	"key as number":       "upstreams: {1: {url: 'http://h/'}}",
	"keys":                "keys: {ring: ['0123456789abcdef0123456789abcdef', \"${OLD:-x}\"]}",
	"observe":             "observe: {listen: 127.0.0.1:9090}",
	"command":             "upstreams: {a: {command: [sh, -c, 'exit 0'], dir: testdata, env: {LOG: info, TOKEN: \"${T:-x}\"}, restart: {backoff: 10ms, max: 1m}}}",
	"upper case scheme":   "upstreams: {a: {url: 'HTTPS://h/'}}",
}

// badDocument is refused by the loader with exactly these problems, as
// "line:column: path: message; hint".
type badDocument struct {
	text     string
	problems []string
	unseen   bool // the schema cannot say it
}

var badDocuments = map[string]badDocument{
	"not a mapping": {"- a", []string{`1:1: must be a mapping, not a list`}, false},
	"a word":        {"hello", []string{`1:1: must be a mapping, not a string`}, false},
	"unknown key": {"limits:\n  sesions: 5\n", []string{
		`2:3: limits.sesions: unknown key; did you mean sessions?`,
	}, false},
	"unknown key far from all":  {"zzzzzz: 1", []string{`1:1: zzzzzz: unknown key`}, false},
	"key of strange characters": {"\"a b\\n\": 1", []string{`1:1: "a b\n": unknown key`}, false},
	"duplicate key": {"shutdown: 1s\nlisten: 127.0.0.1:1\nshutdown: 2s\n", []string{
		`3:1: shutdown: is written twice; the first is in line 1; keep one of them`,
	}, true},
	"duplicate in a flow": {"upstreams: {a: {url: 'http://h/'}, a: {url: 'http://i/'}}", []string{
		`1:36: upstreams.a: is written twice; the first is in line 1; keep one of them`,
	}, true},
	"alias": {"upstreams:\n  a: &x {url: 'http://h/'}\n  b: *x\n", []string{
		`2:6: upstreams.a: YAML anchors and aliases are not allowed; write the value out`,
		`3:6: upstreams.b: YAML anchors and aliases are not allowed; write the value out`,
	}, true},
	"merge key": {"limits:\n  <<: {sessions: 1}\n", []string{
		`2:3: limits: YAML merge keys are not allowed; write the keys out`,
	}, true},
	"tag": {"shutdown: !!str 5s", []string{`1:11: shutdown: YAML tags are not allowed; remove the tag`}, true},
	"several documents": {"listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", []string{
		`3:1: the file holds several documents; keep one, without "---" between`,
	}, true},
	"not yaml":  {"listen: [", []string{`1:9: not valid YAML: sequence end token ']' not found`}, true},
	"not utf-8": {"listen: \xff", []string{`1:9: the document is not valid UTF-8`}, true},
	"nothing":   {"upstreams:\n", []string{`1:11: upstreams: must be a mapping, not nothing`}, false},
	"wrong types": {"shutdown: 10\nlisten: true\nlimits: []\nallowed_hosts: a\n", []string{
		`1:11: shutdown: must be a duration such as "500ms", "60s" or "10m", not a number`,
		`2:9: listen: must be a string, not true or false; put it in quotes`,
		`3:9: limits: must be a mapping, not a list`,
		`4:16: allowed_hosts: must be a list, not a string`,
	}, false},
	"number in quotes": {"limits: {sessions: '5'}", []string{`1:20: limits.sessions: must be a whole number, not a string`}, false},
	"number out of range": {"limits: {sessions: 0, connections: 99999999999999999999999}\nservers: {default: {page_size: 1001}}", []string{
		`1:20: limits.sessions: must be at least 1, not "0"`,
		`1:36: limits.connections: is too large, not "99999999999999999999999"`,
		`2:32: servers.default.page_size: must be between 1 and 1000, not "1001"`,
	}, false},
	"number in octal":     {"limits: {sessions: 010}", []string{`1:20: limits.sessions: must be a whole number, not "010"`}, true},
	"duration":            {"shutdown: 10 s", []string{`1:11: shutdown: must be a duration such as "500ms", "60s" or "10m", not "10 s"`}, false},
	"duration of nothing": {"shutdown: 0s", []string{`1:11: shutdown: must be more than zero, not "0s"`}, true},
	"size": {"limits: {request_bytes: 4MB, cache_bytes: 0}", []string{
		`1:25: limits.request_bytes: must be a size such as "64KiB", "4MiB" or a number of bytes, not "4MB"`,
		`1:43: limits.cache_bytes: must be at least 1, not "0"`,
	}, false},
	"toggle": {"allow_anonymous: yes", []string{`1:18: allow_anonymous: must be on, off, true or false, not "yes"`}, false},
	"enum":   {"upstreams: {a: {url: 'http://h/', era: modrn}}", []string{`1:40: upstreams.a.era: must be one of auto, modern, legacy, not "modrn"`}, false},
	"listen": {"listen: 8080x", []string{`1:9: listen: must be HOST:PORT, not "8080x"; for example 127.0.0.1:8080`}, true},
	"reachable without auth": {"listen: :8080", []string{
		`1:9: listen: must be a loopback address, not ":8080"; set up auth, or allow_anonymous: true to serve everybody who can reach it`,
	}, true},
	"observe on the same address": {"observe: {listen: 127.0.0.1:8080}", []string{
		`1:19: observe.listen: is the address of the main listener; choose another port`,
	}, true},
	"state": {"state: mysql://u:hunter2@db/x", []string{`1:8: state: must be sqlite:PATH, postgres://... or memory:`}, false},
	"admin": {"admin: tcp:1", []string{`1:8: admin: must be of the form ^(unix:.+|off)$, not "tcp:1"`}, false},
	"tls halves": {"tls: {cert: testdata/empty.pem}\nupstreams: {a: {url: 'https://h/', tls: {key: testdata/empty.pem}}}", []string{
		`1:6: tls: key is missing`,
		`2:41: upstreams.a.tls: key is given without cert`,
	}, false},
	"tls file absent": {"tls: {cert: testdata/none.pem, key: testdata}", []string{
		`1:13: tls.cert: cannot be read: no such file or directory: "testdata/none.pem"`,
		`1:37: tls.key: is a folder, not a file: "testdata"`,
	}, true},
	"hosts and origins": {"allowed_hosts: ['http://h', '', '*']\nallowed_origins: [app.example.com, 'https://a/b', 'null']", []string{
		`1:17: allowed_hosts[0]: must be a host name, with a port if it matters, not "http://h"; name each host; there are no wildcards`,
		`1:29: allowed_hosts[1]: must be a host name, with a port if it matters; name each host; there are no wildcards`,
		`1:33: allowed_hosts[2]: must be a host name, with a port if it matters, not "*"; name each host; there are no wildcards`,
		`2:19: allowed_origins[0]: must be an origin such as https://app.example.com, not "app.example.com"`,
		`2:36: allowed_origins[1]: must be an origin such as https://app.example.com, not "https://a/b"`,
		`2:51: allowed_origins[2]: must be an origin such as https://app.example.com, not "null"`,
	}, true},
	"upstream without url": {"upstreams: {a: {}}", []string{`1:16: upstreams.a: url is missing`}, false},
	"url and command":      {"upstreams: {a: {url: 'http://h/', command: [sh]}}", []string{`1:13: upstreams.a: holds url and command; keep one of them`}, false},
	"no command":           {"upstreams: {a: {command: []}}", []string{`1:17: upstreams.a.command: must not be empty; write the program and its arguments as a list`}, false},
	"no program":           {"upstreams: {a: {command: ['', x]}}", []string{`1:17: upstreams.a.command: has no program; the first item is the program`}, true},
	"command as text":      {"upstreams: {a: {command: sh -c x}}", []string{`1:26: upstreams.a.command: must be a list, not a string`}, false},
	"variables": {"upstreams: {a: {command: [sh], env: {'A=B': x}, restart: {backoff: 2m}}}", []string{
		`1:38: upstreams.a.env."A=B": is not a name that a variable can have`,
		`1:49: upstreams.a.restart: backoff must not be longer than max`,
	}, true},
	"upstream keys": {"upstreams: {-a: {url: 'http://h/'}, 'a b': {url: 'http://h/'}}", []string{
		`1:13: upstreams.-a: the key must start with a letter or digit, go on with letters, digits, dots, underscores and dashes, and have at most 64 characters`,
		`1:37: upstreams."a b": the key must start with a letter or digit, go on with letters, digits, dots, underscores and dashes, and have at most 64 characters`,
	}, false},
	"separator in names": {"upstreams:\n  a__b: {url: 'http://h/'}\n  c: {url: 'http://h/', namespace: d__e}\n", []string{
		`2:3: upstreams.a__b: the key must not contain the separator "__"; the server default puts it between namespace and name`,
		`3:36: upstreams.c.namespace: must not contain the separator "__"; the server default puts it between namespace and name`,
	}, true},
	"equal namespaces": {"upstreams:\n  a: {url: 'http://h/', namespace: x}\n  b: {url: 'http://h/', namespace: x}\n", []string{
		`3:36: upstreams.b.namespace: the namespace is that of a already, and the server default offers both`,
	}, true},
	"urls": {"upstreams: {a: {url: 'ftp://h/'}, b: {url: 'http://u:pw@h/'}, c: {url: 'http://h/#f'}, d: {url: /mcp}, e: {url: 'http:///x'}, f: {url: ''}}", []string{
		`1:22: upstreams.a.url: must be an absolute http or https URL without user name and fragment, not "ftp://h/"`,
		`1:44: upstreams.b.url: must be an absolute http or https URL without user name and fragment`,
		`1:72: upstreams.c.url: must be an absolute http or https URL without user name and fragment, not "http://h/#f"`,
		`1:97: upstreams.d.url: must be an absolute http or https URL without user name and fragment, not "/mcp"`,
		`1:113: upstreams.e.url: must be an absolute http or https URL without user name and fragment, not "http:///x"`,
		`1:136: upstreams.f.url: must not be empty`,
	}, false},
	"url with a port beyond all": {"upstreams: {a: {url: 'http://h:99999/'}}", []string{
		`1:22: upstreams.a.url: must be an absolute http or https URL without user name and fragment, not "http://h:99999/"`,
	}, true},
	"headers": {"upstreams:\n  a:\n    url: http://h/\n    headers:\n      authorization: x\n      Host: x\n      MCP-Protocol-Version: x\n      Content-Type: x\n      Connection: x\n      \"X Y\": x\n      X-A: \"a\\nb\"\n      X-B: x\n      x-b: x\n", []string{
		`5:7: upstreams.a.headers.authorization: Authorization cannot be set here; use credentials`,
		`6:7: upstreams.a.headers.Host: the gateway sets this header itself; remove it`,
		`7:7: upstreams.a.headers.MCP-Protocol-Version: the gateway sets this header itself; remove it`,
		`8:7: upstreams.a.headers.Content-Type: the gateway sets this header itself; remove it`,
		`9:7: upstreams.a.headers.Connection: the gateway sets this header itself; remove it`,
		`10:7: upstreams.a.headers."X Y": is not a name that a header can have`,
		`11:12: upstreams.a.headers.X-A: a header must not hold control characters or line ends`,
		`13:7: upstreams.a.headers.x-b: is the same header as X-B; keep one of them`,
	}, true},
	"credentials twice": {"upstreams: {a: {url: 'https://h/', credentials: {bearer: t, header: {name: X, value: y}}}}", []string{
		`1:36: upstreams.a.credentials: holds bearer and header; keep one of them`,
	}, false},
	"credentials in halves": {"upstreams: {a: {url: 'https://h/', credentials: {header: {name: X}}}, b: {url: 'https://h/', credentials: {bearer: 'a b'}}}", []string{
		`1:58: upstreams.a.credentials.header: value is missing`,
		`1:116: upstreams.b.credentials.bearer: a token must not hold spaces, line ends or characters beyond ASCII`,
	}, false},
	"proxy": {"upstreams: {a: {url: 'https://h/', proxy: 'ftp://u:hunter2@p'}}", []string{
		`1:43: upstreams.a.proxy: must be an http, https or socks5 URL of a host, without a path`,
	}, true},
	"missing variable": {"upstreams: {a: {url: 'https://h/', credentials: {bearer: \"${TOKEN}\"}}}", []string{
		`1:58: upstreams.a.credentials.bearer: the environment variable TOKEN is not set; set it, or give a default: ${TOKEN:-default}`,
	}, true},
	"malformed variable": {"servers: {default: {instructions: '${', path: '/${1}'}}", []string{
		`1:35: servers.default.instructions: has a ${ without its }; write $${ for the characters ${`,
		`1:47: servers.default.path: has a ${ that is followed by no name of a variable; write $${ for the characters ${`,
	}, true},
	"unknown upstreams": {"upstreams: {github: {url: 'http://h/'}}\nservers:\n  default:\n    upstreams: [gihtub, github]\n    aliases: {d: {upstream: docs, tool: t}}\n", []string{
		`4:17: servers.default.upstreams[0]: there is no such upstream: "gihtub"; did you mean github?`,
		`5:29: servers.default.aliases.d.upstream: there is no such upstream: "docs"`,
	}, true},
	"alias of another server's upstream": {"upstreams: {a: {url: 'http://h/'}, b: {url: 'http://h/'}}\nservers: {s: {upstreams: [a], aliases: {d: {upstream: b, tool: ''}}}, t: {}}\n", []string{
		`2:55: servers.s.aliases.d.upstream: this server does not offer that upstream: "b"; add it to servers.s.upstreams`,
		`2:64: servers.s.aliases.d.tool: must not be empty`,
	}, false},
	"passthrough of two": {"upstreams: {a: {url: 'http://h/'}, b: {url: 'http://h/'}}\nservers: {default: {naming: passthrough}}", []string{
		`2:29: servers.default.naming: passthrough needs exactly one upstream, and this server has 2; name one under upstreams, or choose namespaced`,
	}, true},
	"no servers":   {"servers: {}", []string{`1:10: servers: holds no virtual server; remove the key to get one named default`}, false},
	"no upstreams": {"servers: {default: {upstreams: []}}", []string{`1:32: servers.default.upstreams: names no upstream; remove the key to offer all`}, false},
	"upstream twice": {"upstreams: {a: {url: 'http://h/'}}\nservers: {default: {upstreams: [a, a]}}", []string{
		`2:32: servers.default.upstreams: names a twice`,
	}, false},
	"paths": {"servers: {a: {path: /x/}, b: {path: /x}, c: {path: mcp}, d: {path: /health}, e: {path: /a/../b}, f: {path: '/{x}'}}", []string{
		`1:37: servers.b.path: is the path of servers.a already`,
		`1:52: servers.c.path: must be of the form ^/, not "mcp"`,
		`1:68: servers.d.path: is a path of the gateway's own: "/health"`,
		`1:88: servers.e.path: must be a plain path of letters, digits and -._~ without empty or dotted segments, not "/a/../b"`,
		`1:108: servers.f.path: must be a plain path of letters, digits and -._~ without empty or dotted segments, not "/{x}"`,
	}, false},
	"globs": {"servers: {default: {expose: {tools: {allow: ['[a', '']}, prompts: {allow: []}}}}", []string{
		`1:46: servers.default.expose.tools.allow[0]: must be a glob of * and ?, without [...], {...} and \, not "[a"`,
		`1:52: servers.default.expose.tools.allow[1]: must not be empty`,
		`1:75: servers.default.expose.prompts.allow: names nothing; remove the key to offer everything, or write deny: ["*"] to offer nothing`,
	}, false},
	"separator": {"servers: {default: {separator: '/'}}", []string{
		`1:32: servers.default.separator: must be of the form ^[A-Za-z0-9_.-]{1,16}$, not "/"`,
	}, false},
	"durable without a pin": {"upstreams:\n  jobs:\n    command: [./jobs]\n    durable: {}\n", []string{
		`4:14: upstreams.jobs.durable: pin is missing`,
	}, false},
	"durable and what it cannot be": {"state: sqlite:a.db\nupstreams:\n  jobs:\n    command: [./jobs]\n    era: legacy\n    durable: {pin: 'sha256:00', session: stateless}\ndurable: {max_retention: 1s, max_routes: 0}\n", []string{
		`6:5: upstreams.jobs.durable: durable tasks need revision 2026-07-28, and era is legacy; remove one of the two`,
		`6:20: upstreams.jobs.durable.pin: must be of the form ^sha256:[0-9a-f]{64}$, not "sha256:00"`,
		`6:42: upstreams.jobs.durable.session: a child process keeps its state to itself, and nothing can be bound to the next one; write strict`,
		`7:26: durable.max_retention: is less than durable.max_runtime, 30s; an outcome is kept at least as long as the task may run`,
		`7:42: durable.max_routes: must be at least 1, not "0"`,
	}, false},
}
