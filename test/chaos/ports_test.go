//go:build linux

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given are the addresses that freeAddress gave away.
var given sync.Map

// freeAddress is one that a process can listen on, again and again: below the
// ports that the system gives to outgoing connections.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		if ln, err := net.Listen("tcp", address); err == nil {
			_ = ln.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}
