package ledger

import "time"

// Load is how busy the GPUs of a pod were while it held them, as far as that was measured, all of them on average.
type Load struct {
	// Measured is for how much of the time it is known, and Busy for how much of that a program ran on them.
	Measured, Busy time.Duration
}

// Efficiency is how busy GPUs were while they were held. JSON keys are a contract.
type Efficiency struct {
	// Utilization is the mean of what was measured, in percent; nil where nothing was.
	Utilization *float64 `json:"utilizationPercent"`
	// Measured is of how much of the time for which GPUs were held it is the mean, in percent.
	Measured float64 `json:"measuredPercent"`
}

// EfficiencySum adds up how busy GPUs were, each GPU for as long as it was held.
type EfficiencySum struct{ held, measured, busy float64 }

// Add adds so much of GPUs for so long, of a pod that held them for life in all.
func (s *EfficiencySum) Add(milli int64, held, life time.Duration, load Load) {
	weight := float64(milli) * held.Seconds()
	if weight <= 0 {
		return
	}
	s.held += weight
	if life <= 0 || load.Measured <= 0 {
		return
	}
	measured := min(load.Measured, life)
	s.measured += weight * measured.Seconds() / life.Seconds()
	s.busy += weight * min(load.Busy, measured).Seconds() / life.Seconds()
}

// AddKnown adds so many GPU-hours, of which it is known how busy they were; nil adds nothing.
func (s *EfficiencySum) AddKnown(hours float64, e *Efficiency) {
	if e == nil {
		return
	}
	s.held += hours
	if e.Utilization != nil {
		s.measured += hours * e.Measured / 100
		s.busy += hours * e.Measured / 100 * *e.Utilization / 100
	}
}

func (s *EfficiencySum) join(other *EfficiencySum) {
	s.held, s.measured, s.busy = s.held+other.held, s.measured+other.measured, s.busy+other.busy
}

// Efficiency is what was added up, nil where no GPU was held.
func (s *EfficiencySum) Efficiency() *Efficiency {
	if s.held <= 0 {
		return nil
	}
	out := &Efficiency{Measured: 100 * s.measured / s.held}
	if s.measured > 0 {
		utilization := 100 * s.busy / s.measured
		out.Utilization = &utilization
	}
	return out
}

// LifeUntil is for how long a pod has held its GPUs: to its end, or up to when that is known of those that have not ended.
func (h *Holding) LifeUntil(known time.Time) time.Duration {
	if h.Ended() {
		return h.To.Sub(h.From)
	}
	return max(0, known.Sub(h.From))
}
