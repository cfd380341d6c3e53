package config

import (
	"fmt"
	"strings"
)

// checkFormerly holds the earlier keys of an upstream: they are nobody's now.
func (d *decoder) checkFormerly(doc *Document, path string, u *Upstream) {
	at := path + ".formerly"
	for _, key := range u.Formerly {
		switch {
		case !keyForm.MatchString(key):
			d.problemFor(at, keySuffix, "an earlier key "+keyRule, "")
		case key == u.Key:
			d.problemFor(at, keySuffix, "names the upstream itself", "remove it")
		case doc.Upstreams[key] != nil:
			d.problemFor(at, keySuffix, key+" is the key of another upstream now", "remove it")
		}
	}
}

// checkURLs holds the addresses of an upstream that has several.
func (d *decoder) checkURLs(path string, u *Upstream) {
	at := path + ".urls"
	place, written := d.places[at+keySuffix]
	if !written || place.bad || d.bad(at) {
		return
	}
	if len(u.URLs) == 0 {
		d.problemFor(at, keySuffix, "must not be empty", "write the address of each replica, or url for a single one")
		return
	}
	first := map[string]int{}
	for i, address := range u.URLs {
		name := fmt.Sprintf("address %d", i+1)
		switch j, twice := first[address]; {
		case !ValidURL(address):
			d.problemFor(at, keySuffix, name+" must be an absolute http or https URL without user name and fragment", "")
		case twice:
			d.problemFor(at, keySuffix, fmt.Sprintf("%s is the same as address %d", name, j+1), "keep one of them")
		case schemeOf(address) != schemeOf(u.URLs[0]):
			d.problemFor(at, keySuffix, name+" has another scheme than the first", "replicas of one server are reached in one way")
		}
		first[address] = i
	}
}

func schemeOf(address string) string {
	scheme, _, _ := strings.Cut(strings.ToLower(address), ":")
	return scheme
}
