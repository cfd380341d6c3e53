package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// offering is the address of an upstream that lists these tools.
func offering(t *testing.T, tools ...string) string {
	t.Helper()
	var list []string
	for _, name := range tools {
		list = append(list, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	const kept = `"resultType":"complete","ttlMs":600000,"cacheScope":"public"`
	return upstreamURL(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `"error":{"code":-32601,"message":"method not found"}`
		switch m.Method {
		case "server/discover":
			result = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` + kept + `}`
		case "tools/list":
			result = `"result":{"tools":[` + strings.Join(list, ",") + `],` + kept + `}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}))
}
