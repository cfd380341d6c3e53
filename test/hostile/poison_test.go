package hostile_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// One upstream must not be able to make everybody's list unreadable, or to
// write lines into it, by what is only passed over.
func TestAPoisonedItemLeavesTheListReadable_badInput(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"raw line end":      "\"a\nevent: x\ndata: {}\n\n\"",
		"raw CR":            "\"a\rb\"",
		"control character": "\"a\x00b\x1f\"",
		"invalid UTF-8":     "\"a\xff\xfeb\"",
		"lone surrogate":    `"\ud800"`,
		"unknown escape":    `"\q"`,
		"cut escape":        `"\u12"`,
		"leading zero":      `01`,
		"bare word":         `nope`,
		"NaN":               `NaN`,
		"two values":        `1 2`,
		"trailing comma":    `{"a":1,}`,
		"missing comma":     `{"a":1 "b":2}`,
		"wrong brackets":    `{"a":[1}]`,
		"duplicate inside":  `{"a":1,"a":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			bothEras(t, func(t *testing.T, u *upstream) {
				u.list("tools", `{"name":"good","inputSchema":{"type":"object"}}`, `{"name":"bad","description":"d","x":`+value+`,"inputSchema":{"type":"object","default":`+value+`}}`)
				u.list("resources", `{"uri":"memo://1","name":"r","_meta":{"x":`+value+`}}`)
				g := open(t, members{"a": u, "b": newModern(t).tool("fine").resource("memo://b")})
				for _, accept := range []string{"application/json", "text/event-stream"} {
					for method, want := range map[string]string{"tools/list": "b__fine", "resources/list": "memo://b"} {
						s := g.legacy("2025-11-25")
						for era, r := range map[string]*reply{
							"modern": g.post(modernBody("1", method, ""), append(modernHeaders(method, ""), "Accept", accept)...),
							"legacy": s.send(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`, "Accept", accept),
						} {
							if r.Status != http.StatusOK || !strings.Contains(r.message(), want) {
								t.Errorf("%s %s %s: %v", era, accept, method, r)
								continue
							}
							dec := jsontext.NewDecoder(strings.NewReader(r.message()), jsontext.AllowDuplicateNames(true))
							if _, err := dec.ReadValue(); err != nil || !utf8.ValidString(r.Body) {
								t.Errorf("%s %s: the list is not valid JSON: %v\n%q", era, method, err, r.Body)
							}
							if accept == "text/event-stream" && len(r.Events) != 1 {
								t.Errorf("%s %s: %d events", era, method, len(r.Events))
							}
						}
					}
				}
				healthy(t, g, "b__fine")
			})
		})
	}
}

func TestPoisonedCapabilitiesLeaveTheDescriptionReadable_badInput(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"raw line end":     "\"a\nevent: x\n\n\"",
		"invalid UTF-8":    "\"\xff\"",
		"unknown escape":   `"\q"`,
		"leading zero":     `01`,
		"wrong brackets":   `{"a":[1}]`,
		"duplicate inside": `{"a":1,"a":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			bothEras(t, func(t *testing.T, u *upstream) {
				u.tool("t")
				u.caps = `{"tools":{"x":` + value + `},"extensions":{"v/e":` + value + `},"experimental":{"e":` + value + `},"x":` + value + `}`
				g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
				for _, accept := range []string{"application/json", "text/event-stream"} {
					for era, r := range map[string]*reply{
						"modern": g.post(modernBody("1", "server/discover", ""), append(modernHeaders("server/discover", ""), "Accept", accept)...),
						"legacy": g.post(initialize("2025-11-25"), "Accept", accept),
					} {
						if r.Status != http.StatusOK || at(r.message(), "result", "capabilities", "tools") == "" || accept == "text/event-stream" && len(r.Events) != 1 {
							t.Errorf("%s %s: %v", era, accept, r)
						}
					}
				}
				healthy(t, g, "b__fine")
			})
		})
	}
}
