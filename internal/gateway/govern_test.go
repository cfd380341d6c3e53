package gateway

import (
	"strings"
	"testing"
)

// The document of a starter holds the place of a key that is still to be made: it
// serves, and lets nobody in by that.
func TestThePlaceOfAKeyLetsNobodyIn(t *testing.T) {
	h := serving(t, map[string]*up{"u": {}},
		`auth: {api_keys: [{name: ci, hash: "sha256:`+strings.Repeat("0", 64)+`", subject: ci}]}`)
	for _, credential := range []string{"", "Bearer x", "Bearer " + strings.Repeat("0", 64)} {
		headers := map[string]string{}
		if credential != "" {
			headers["Authorization"] = credential
		}
		if o := h.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, headers); o.status != 401 {
			t.Errorf("%q: HTTP %d %s", credential, o.status, o.body)
		}
	}
}
