package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Key is a dimension by which usage is summed.
type Key string

// The keys.
const (
	ByJob       Key = "job"
	ByUser      Key = "user"
	ByNamespace Key = "namespace"
	ByPool      Key = "pool"
	ByGPUType   Key = "gpu-type"
	ByNode      Key = "node"
)

// Keys are all keys.
var Keys = []Key{ByJob, ByUser, ByNamespace, ByPool, ByGPUType, ByNode}

// ParseKeys parses comma-separated keys. Job names are meaningless without their namespace, which is added.
func ParseKeys(text string) ([]Key, error) {
	var out []Key
	for word := range strings.SplitSeq(text, ",") {
		key := Key(strings.TrimSpace(word))
		switch {
		case !slices.Contains(Keys, key):
			return nil, fmt.Errorf("usage cannot be summed by %q: want %s", word, keyList())
		case slices.Contains(out, key):
			return nil, fmt.Errorf("%s is there twice", key)
		}
		out = append(out, key)
	}
	if at := slices.Index(out, ByJob); at >= 0 && !slices.Contains(out, ByNamespace) {
		out = slices.Insert(out, at, ByNamespace)
	}
	return out, nil
}

func keyList() string {
	words := make([]string, len(Keys))
	for i, key := range Keys {
		words[i] = string(key)
	}
	return strings.Join(words, ", ")
}

// Sum is the usage under one combination of keys. JSON keys are a contract.
type Sum struct {
	// Keys are the values of the sum's keys; "" is unknown.
	Keys map[Key]string `json:"keys"`
	// GPUHours is the certain usage.
	GPUHours float64 `json:"gpuHours"`
	// UncertainGPUHours is possible additional usage whose end was not observed.
	UncertainGPUHours float64 `json:"uncertainGPUHours,omitempty"`
	// Pods counts the pods, and Running those that still hold GPUs.
	Pods    int `json:"pods"`
	Running int `json:"running"`
	// Efficiency is the utilization during the certain usage; nil if nothing is measured.
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// Usage is GPU usage over a time range. JSON keys are a contract.
type Usage struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Items []Sum     `json:"items"`
	// Rest is the sum of everything beyond Items.
	Rest *Sum `json:"rest,omitempty"`
	// Gaps are the time ranges from which pods may be missing.
	Gaps []Gap `json:"gaps,omitempty"`
	// Begin is when the ledger begins, if that is after From.
	Begin time.Time `json:"begin,omitzero"`
}

// Row is the part of a holding that sums need, with times in Unix seconds. The byte slices are borrowed, so that a million rows need no memory.
type Row struct {
	From, To, Until int64 // To is 0 while it is held
	Milli           int64
	Namespace       []byte
	Job             []byte
	User            []byte
	Pool            []byte
	GPUType         []byte
	Node            []byte
	JobUID          []byte
	Load            Load
}

// UsageSummer sums holdings by keys within a time range.
type UsageSummer struct {
	// Measured is the time until which the load of GPUs was measured, zero without measurements.
	Measured time.Time
	// Known is the time until which holdings are known, zero if all of the time is. Holdings at that time may have lasted longer.
	Known time.Time

	keys     []Key
	from, to int64
	sums     map[string]*sum
	key      []byte
}

type sum struct {
	values                 []string
	milliSeconds, doubtful int64
	pods, running          int
	efficiency             EfficiencySum
}

// NewUsageSummer returns a Summing for a time range.
func NewUsageSummer(keys []Key, from, to time.Time) *UsageSummer {
	return &UsageSummer{keys: keys, from: from.Unix(), to: to.Unix(), sums: map[string]*sum{}}
}

// Add adds a holding.
func (s *UsageSummer) Add(row *Row) {
	held, doubtful := s.overlapSeconds(row)
	if held == 0 && doubtful == 0 && !s.justBegun(row) {
		return
	}
	s.key = s.key[:0]
	for _, key := range s.keys {
		s.key = append(append(s.key, row.keyValue(key)...), 0)
	}
	into := s.sums[string(s.key)]
	if into == nil {
		into = &sum{}
		for _, key := range s.keys {
			into.values = append(into.values, string(row.keyValue(key)))
		}
		s.sums[string(s.key)] = into
	}
	into.milliSeconds += held * row.Milli
	into.doubtful += doubtful * row.Milli
	into.efficiency.Add(row.Milli, time.Duration(held)*time.Second, row.LifeUntil(s.Measured), row.Load)
	into.pods++
	if row.To == 0 {
		into.running++
	}
}

// overlapSeconds returns for how many seconds of the range a holding was certainly held, and for how many more it may have been.
func (s *UsageSummer) overlapSeconds(row *Row) (held, doubtful int64) {
	end, until := row.To, row.Until
	if end == 0 {
		end, until = s.to, s.to
		if !s.Known.IsZero() {
			end = min(end, max(row.From, s.Known.Unix()))
		}
	}
	held = max(0, min(end, s.to)-max(row.From, s.from))
	if until > end {
		doubtful = max(0, min(until, s.to)-max(end, s.from))
	}
	return held, doubtful
}

// justBegun reports whether a holding began in the last second of the range, so that an immediate query shows it.
func (s *UsageSummer) justBegun(row *Row) bool { return row.To == 0 && row.From == s.to }

// LifeUntil is like [Holding.LifeUntil].
func (r *Row) LifeUntil(known time.Time) time.Duration {
	end := r.To
	if end == 0 {
		end = known.Unix()
	}
	return time.Duration(max(0, end-r.From)) * time.Second
}

func (r *Row) keyValue(key Key) []byte {
	switch key {
	case ByJob:
		return r.Job
	case ByUser:
		return r.User
	case ByNamespace:
		return r.Namespace
	case ByPool:
		return r.Pool
	case ByGPUType:
		return r.GPUType
	case ByNode:
		return r.Node
	}
	return nil
}

// milliSecondsPerHour is an hour of a GPU, in seconds of thousandths of a GPU.
const milliSecondsPerHour = 3600 * whole

// Sums returns at most the given number of sums, the largest first. rest is the sum of the others, nil for none.
func (s *UsageSummer) Sums(most int) (out []Sum, rest *Sum) {
	sums := make([]*sum, 0, len(s.sums))
	for _, one := range s.sums {
		sums = append(sums, one)
	}
	slices.SortFunc(sums, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(b.milliSeconds, a.milliSeconds), slices.Compare(a.values, b.values))
	})
	out = make([]Sum, 0, min(len(sums), most))
	for _, one := range sums[:min(len(sums), most)] {
		keys := make(map[Key]string, len(s.keys))
		for i, key := range s.keys {
			keys[key] = one.values[i]
		}
		out = append(out, s.exportSum(one, keys))
	}
	if len(sums) <= most {
		return out, nil
	}
	var others sum
	for _, one := range sums[most:] {
		others.milliSeconds, others.doubtful = others.milliSeconds+one.milliSeconds, others.doubtful+one.doubtful
		others.pods, others.running = others.pods+one.pods, others.running+one.running
		others.efficiency.addSum(&one.efficiency)
	}
	sum := s.exportSum(&others, map[Key]string{})
	return out, &sum
}

func (s *UsageSummer) exportSum(one *sum, keys map[Key]string) Sum {
	out := Sum{
		Keys: keys, Pods: one.pods, Running: one.running,
		GPUHours:          float64(one.milliSeconds) / milliSecondsPerHour,
		UncertainGPUHours: float64(one.doubtful) / milliSecondsPerHour,
	}
	if !s.Measured.IsZero() {
		out.Efficiency = one.efficiency.Efficiency()
	}
	return out
}
