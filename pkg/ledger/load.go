package ledger

import "time"

// Load is the average load of a pod's GPUs while it held them, as far as it was measured.
type Load struct {
	// Measured is the time for which the load is known, and Busy the part of it in which a program ran on the GPUs.
	Measured, Busy time.Duration
}

// Efficiency is the utilization of GPUs while they were held. JSON keys are a contract.
type Efficiency struct {
	// Utilization is the mean of the measured load in percent; nil if nothing was measured.
	Utilization *float64 `json:"utilizationPercent"`
	// Measured is the measured share of the time for which GPUs were held, in percent.
	Measured float64 `json:"measuredPercent"`
}

// EfficiencySum sums the utilization of GPUs, weighted by how long each was held.
type EfficiencySum struct{ held, measured, busy float64 }

// Add adds an amount of GPUs for a time, of a pod that held them for life in total.
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

// AddKnown adds GPU-hours with known efficiency; nil adds nothing.
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

func (s *EfficiencySum) addSum(other *EfficiencySum) {
	s.held, s.measured, s.busy = s.held+other.held, s.measured+other.measured, s.busy+other.busy
}

// Efficiency returns the sum, nil if no GPU was held.
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

// LifeUntil returns how long a pod has held its GPUs: to its end, or up to a known time if it has not ended.
func (h *Holding) LifeUntil(known time.Time) time.Duration {
	if h.HasEnded() {
		return h.To.Sub(h.From)
	}
	return max(0, known.Sub(h.From))
}
