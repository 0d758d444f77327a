package workload

import "time"

// Reservation keeps nodes for some from one time to another.
type Reservation struct {
	Name string
	// Pool is that of which all nodes are kept, "" where Nodes names them.
	Pool  string
	Nodes []string
	// From is when the window begins; nil is when it is made.
	From *time.Time
	// To is when it ends; nil is For after it begins.
	To  *time.Time
	For time.Duration
	// Namespaces are those whose jobs may be there. None is a maintenance window.
	Namespaces []string
	Reason     string
	// Evict has those evicted who are still there when it begins, and may not be.
	Evict bool
}

// Window is from when to when the nodes are kept, of a reservation that is made at a time.
func (r *Reservation) Window(made time.Time) (from, to time.Time) {
	from = made
	if r.From != nil {
		from = *r.From
	}
	if r.To != nil {
		return from, *r.To
	}
	return from, from.Add(r.For)
}
