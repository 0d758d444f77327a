package workload

import "time"

// Reservation reserves nodes for some namespaces for a period of time.
type Reservation struct {
	Name string
	// Pool is the pool whose nodes are all reserved, "" if Nodes lists the nodes.
	Pool  string
	Nodes []string
	// From is the start of the window; nil is the creation time.
	From *time.Time
	// To is the end of the window; nil is For after the start.
	To  *time.Time
	For time.Duration
	// Namespaces are the namespaces whose jobs may use the nodes. Without any, it is a maintenance window.
	Namespaces []string
	Reason     string
	// Evict evicts pods that are still on the nodes at the start and may not be.
	Evict bool
}

// Window returns the time window of a reservation that is created at the given time.
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
