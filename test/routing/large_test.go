package routing_test

import (
	"strings"
	"testing"
)

// An answer of over 64 KiB is streamed, and what an answer owes to its kind is
// owed all the same.

var large = quote(strings.Repeat("large ", 20<<10))

// Where the kind shows only when bytes have left, the connection is cut (DESIGN
// section 3). The state itself must not have left.
func TestALargeQuestionIsSealedLikeASmallOne(t *testing.T) {
	t.Parallel()
	members := []string{
		`"requestState":"in the clear"`, `"resultType":"input_required"`,
		`"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":` + large + `,"requestedSchema":{"type":"object"}}}}`,
	}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		result := members[order[0]] + "," + members[order[1]] + "," + members[order[2]]
		up := peers{"a": {tools: items("tools", "x"), reply: func(got request) string {
			if got.method == "tools/call" {
				return success("$ID", result)
			}
			return ""
		}}}
		gw := serve(t, up, "")
		c := gw.modern("")
		c.caps, c.mayBeCut = `{"elicitation":{"form":{}}}`, true
		a := c.named(t, "tools/call", "a__x")
		switch {
		case strings.Contains(string(a.raw), "in the clear"):
			t.Errorf("%v: the upstream's state leaves unsealed", order)
		case a.cut || a.code() == -31007:
		case find(a.Result, "requestState") == nil || find(a.Result, "ttlMs") != nil:
			t.Errorf("%v: not the question: %.200s", order, a.raw)
		}
		// A legacy client that declared nothing is not asked: its tool has failed.
		old := gw.legacy(t, "", legacyRevision)
		old.mayBeCut = true
		if a := old.named(t, "tools/call", "a__x"); !a.cut && a.code() != -31007 && !strings.Contains(string(a.raw), `"isError":true`) {
			t.Errorf("%v: a legacy client got %.200s", order, a.raw)
		}
	}
}

func TestALargeErrorHasTheCodeOfTheClientsEra(t *testing.T) {
	t.Parallel()
	up := peers{"a": {legacy: true, resources: items("resources", "x://y"), reply: func(got request) string {
		if got.method == "resources/read" {
			return failure("$ID", -32002, "gone", `{"why":`+large+`}`)
		}
		return ""
	}}}
	c := serve(t, up, "").modern("")
	if a := c.named(t, "resources/read", "x://y"); a.code() != -32602 {
		t.Errorf("a modern client got code %d", a.code())
	}
}

func TestALargeResultOfAnUnknownTypeIsRefused(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: items("tools", "x"), reply: func(got request) string {
		if got.method == "tools/call" {
			return success("$ID", `"resultType":"task","taskId":"t","status":"working","content":[{"type":"text","text":`+large+`}]`)
		}
		return ""
	}}}
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		if a := c.named(t, "tools/call", "a__x"); a.code() != -31007 {
			t.Errorf("%s: a task that was not asked for came through: %.200s", era, a.raw)
		}
	}
}
