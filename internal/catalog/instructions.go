package catalog

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Part is what one upstream instructs its clients.
type Part struct{ Upstream, Text string }

const cut = "…"

// MergeInstructions joins the configured text and a section per upstream, in
// byte order of their keys, within most bytes (0: no bound). Upstreams share
// what the configured text leaves; a section that gets too little is cut at a
// character and ends in an ellipsis, one that gets nothing is left out. The
// only part there is, and no configured text, passes unchanged.
func MergeInstructions(own string, parts []Part, most int) string {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return strings.TrimSpace(p.Text) == "" })
	slices.SortStableFunc(parts, func(a, b Part) int { return strings.Compare(a.Upstream, b.Upstream) })
	if most <= 0 {
		most = int(^uint(0) >> 1)
	}
	if own == "" && len(parts) == 1 {
		return clip(parts[0].Text, most)
	}
	out := clip(own, most)
	for i, p := range parts {
		head := "## " + p.Upstream + "\n"
		if out != "" {
			head = "\n\n" + head
		}
		share := (most - len(out)) / (len(parts) - i)
		if share < len(head)+len(cut) {
			continue
		}
		out += head + clip(strings.TrimSpace(p.Text), share-len(head))
	}
	return out
}

// clip cuts s at a character so that it fits most bytes, ellipsis included.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if most < len(cut) {
		return ""
	}
	end := most - len(cut)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}
