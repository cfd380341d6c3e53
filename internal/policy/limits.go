package policy

// What a condition may be, and may cost. An operator writes conditions, but a
// caller chooses the arguments, so both are bounded.
const (
	maxExpression = 4096 // characters
	maxRecursion  = 64   // nesting of the expression
	maxRecovery   = 8    // attempts of the parser to go on after a fault
	maxNodes      = 2000 // nodes of the expression, with its macros expanded
	maxNesting    = 2    // comprehensions within each other
	maxRegexp     = 500  // instructions of a compiled regular expression

	// maxCost ends an evaluation. A unit is one step of the evaluation, one
	// element compared, or as much text as is crossed in the same time
	// (textPerUnit). A step takes 20 to 100 ns, so that a condition ends in
	// about a millisecond whatever the arguments are.
	maxCost = 10_000

	// textPerUnit is the text in bytes that a unit pays for where an operator
	// crosses text: equality, contains, concatenation, size, parsing.
	textPerUnit = 256

	// stepsPerUnit is the work of a regular expression that a unit pays for:
	// instructions times bytes of text. maxSteps bounds one match; a longer
	// text is an error, since a match cannot be interrupted.
	stepsPerUnit = 32
	maxSteps     = maxCost * stepsPerUnit

	// zoneCost is what a function with a named time zone costs: it may read
	// the zone from a file.
	zoneCost = 1000

	// interruptEvery is how many steps of a comprehension pass between two
	// looks at whether the call was cancelled.
	interruptEvery = 100
)

// What arguments may be where a condition asks for them. Beyond it they are an
// error, which denies in a deny and does not allow in an allow. The number of
// values bounds the time of decoding them.
const (
	maxArguments   = 1 << 20 // bytes
	maxAnnotations = 64 << 10
	maxValues      = 1 << 16
	maxDepth       = 200
)

// What is kept.
const (
	maxViews = 4096 // selections that callers share
	maxLanes = 1024 // pairs of server and upstream that one selection remembers
)
