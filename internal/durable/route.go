package durable

// Route is the durable record of one submission.
type Route struct{}
