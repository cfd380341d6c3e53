// Package durablegateway holds the black-box tests of durable tasks at the endpoint: what is listed, called, polled, told of and recorded,
// with a worker under the tests' control behind it.
package durablegateway
