// Package docs holds the tests that run what the documentation says: the worked examples of policy.md against a real
// gateway, and what tables and listings of the other pages claim.
package docs
