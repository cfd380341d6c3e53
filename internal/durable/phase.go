package durable

// Phase is where a route stands.
type Phase string

// The phases (contract 3.2).
const (
	Prepared        Phase = "prepared"
	Dispatching     Phase = "dispatching"
	Routed          Phase = "routed"
	CancelRequested Phase = "cancel_requested"
	Reconciliation  Phase = "reconciliation_required"
	Terminal        Phase = "terminal"
)

// Phases are all of them, in the order of a route's way.
var Phases = []Phase{Prepared, Dispatching, Routed, CancelRequested, Reconciliation, Terminal}

// legal are the transitions that there are. What is not here never happens.
var legal = map[Phase][]Phase{
	Prepared:        {Dispatching, CancelRequested, Reconciliation, Terminal},
	Dispatching:     {Routed, CancelRequested, Reconciliation, Terminal},
	Routed:          {CancelRequested, Reconciliation, Terminal},
	Reconciliation:  {Routed, CancelRequested, Terminal},
	CancelRequested: {CancelRequested, Terminal}, // to itself: binds the upstream's id, or counts an attempt
	Terminal:        nil,
}

// may tells whether a route may go from one phase to another.
func (p Phase) may(to Phase) bool {
	for _, q := range legal[p] {
		if q == to {
			return true
		}
	}
	return false
}
