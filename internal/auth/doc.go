// Package auth says who is calling (DESIGN sections 2, 7 and 11). A principal is
// known by one key everywhere.
//
// One credential's way, cheapest check first, so that nothing is done for free:
//
//  1. The header: one field, one value, the scheme Bearer, few and plain bytes.
//  2. The digest: an API key, or a token that was verified or refused lately.
//  3. The form: three parts, strict JSON, an allowed algorithm, an access token.
//  4. The claims: a known issuer, the dates, the audience, the tenant.
//  5. The key: of that issuer, by id. An unknown id may have the set read again,
//     seldom.
//  6. The signature. Only failures here cost the gateway anything, so only they
//     count against their source.
//  7. Revocation and scopes, on every request, remembered or not.
package auth
