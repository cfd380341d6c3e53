package config

import "errors"

// scalar is a type of ours that is written as one value. set takes the text after
// variables were replaced; its errors never hold that text.
type scalar interface {
	set(text string) error
	form() form
}

// form is how a scalar looks from outside, for messages and for the schema.
type form struct {
	what     string // completes "must be ..."
	pattern  string // of the text; empty: any
	number   bool   // a plain number is accepted too
	boolean  bool   // true and false are accepted too
	secret   bool   // the text is never shown
	notEmpty bool
}

// errForm says no more than that the text does not have the form.
var errForm = errors.New("wrong form")
