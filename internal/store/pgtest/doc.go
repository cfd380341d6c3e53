// Package pgtest runs PostgreSQL for tests: a server of the test process's own
// in a temporary folder, reached through a socket there, that ends with it.
//
// A package that uses Database ends the shared server in its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Without PostgreSQL installed such tests skip and say so; with CI=true they
// fail.
package pgtest
