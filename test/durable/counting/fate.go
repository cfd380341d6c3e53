package counting

// Fate is what becomes of one request.
type Fate string

// The fates. Those of an answer concern tools/call and tasks/get.
const (
	Honest     Fate = "honest"
	LostBefore Fate = "lost before it arrives"
	LostAfter  Fate = "taken, and the answer is lost"
	Late       Fate = "taken, and answered when nobody waits any more"
	Twice      Fate = "answered twice" // over HTTP
	Stale      Fate = "answered with what was answered before"
	Refused    Fate = "refused" // -32602
	Failing    Fate = "begun, and answered with -32603"
	WrongID    Fate = "answered under another id"
	NoEcho     Fate = "answered without the envelope"
	ForgedEcho Fate = "answered with another envelope"
	TooLarge   Fate = "answered with more than was agreed"
	AtOnce     Fate = "answered at once instead of with a task"
	AtOnceBare Fate = "answered at once without the envelope"
	Reconnect  Fate = "answered, and the connection is another one then" // of a Source
)
