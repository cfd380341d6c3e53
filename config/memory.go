package config

import "regexp"

// bareMemory is how everybody writes the store in memory first. To YAML a word
// with a colon behind it is a key, and this line an error.
var bareMemory = regexp.MustCompile(`(?m)^(state:[ \t]+)memory:([ \t]*(?:#.*)?\r?)$`)

// quoteMemory reads `state: memory:` as it is meant.
func quoteMemory(data []byte) []byte { return bareMemory.ReplaceAll(data, []byte(`${1}"memory:"${2}`)) }
