package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Key is what usage is summed by.
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

// Keys are all there are.
var Keys = []Key{ByJob, ByUser, ByNamespace, ByPool, ByGPUType, ByNode}

// ParseKeys reads keys that are separated by commas. Names of jobs mean nothing without their namespace, which comes along.
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

// Sum is what was held under one key. JSON keys are a contract.
type Sum struct {
	// Keys are the values that it was summed by; "" is what is not known.
	Keys map[Key]string `json:"keys"`
	// GPUHours is what was certainly held.
	GPUHours float64 `json:"gpuHours"`
	// UncertainGPUHours is what may have been held beyond that: nobody saw when it ended.
	UncertainGPUHours float64 `json:"uncertainGPUHours,omitempty"`
	// Pods is how many pods held it, and Running how many of them still do.
	Pods    int `json:"pods"`
	Running int `json:"running"`
	// Efficiency is how busy what was certainly held was; nil where nothing is measured.
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// Usage is who held how much of GPUs in a time. JSON keys are a contract.
type Usage struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Items []Sum     `json:"items"`
	// Rest is the sum of all that Items are too many for.
	Rest *Sum `json:"rest,omitempty"`
	// Gaps are the times of which pods may be missing.
	Gaps []Gap `json:"gaps,omitempty"`
	// Begin is when the ledger begins, if that is after From.
	Begin time.Time `json:"begin,omitzero"`
}

// Row is what a sum needs of a holding, times in seconds since 1970: bytes that are only looked at, so that a million of
// them cost no memory.
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

// Summing adds up holdings by keys, within a time.
type Summing struct {
	// Measured is until when it was measured how busy GPUs are, zero where it is not.
	Measured time.Time
	// Known is until when it is known who held what, zero where all of the time is. What was held then may have been for longer.
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

// NewSumming begins to add up what is held from a moment to another.
func NewSumming(keys []Key, from, to time.Time) *Summing {
	return &Summing{keys: keys, from: from.Unix(), to: to.Unix(), sums: map[string]*sum{}}
}

// Add adds a holding.
func (s *Summing) Add(row *Row) {
	held, doubtful := s.overlap(row)
	if held == 0 && doubtful == 0 && !s.justBegun(row) {
		return
	}
	s.key = s.key[:0]
	for _, key := range s.keys {
		s.key = append(append(s.key, row.value(key)...), 0)
	}
	into := s.sums[string(s.key)]
	if into == nil {
		into = &sum{}
		for _, key := range s.keys {
			into.values = append(into.values, string(row.value(key)))
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

// overlap is for how many seconds of the time a holding held certainly, and for how many it may have.
func (s *Summing) overlap(row *Row) (held, doubtful int64) {
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

// justBegun reports whether a holding began in the second with which the time ends: who asks at once sees that it is there.
func (s *Summing) justBegun(row *Row) bool { return row.To == 0 && row.From == s.to }

// LifeUntil is as [Holding.LifeUntil] has it.
func (r *Row) LifeUntil(known time.Time) time.Duration {
	end := r.To
	if end == 0 {
		end = known.Unix()
	}
	return time.Duration(max(0, end-r.From)) * time.Second
}

func (r *Row) value(key Key) []byte {
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

// milliSecondsPerHour is an hour in seconds of thousandths of a GPU.
const milliSecondsPerHour = 3600 * whole

// Sums returns what was added up, the most first, and no more than so many: rest is the sum of the others, nil for none.
func (s *Summing) Sums(most int) (out []Sum, rest *Sum) {
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
		out = append(out, s.told(one, keys))
	}
	if len(sums) <= most {
		return out, nil
	}
	var others sum
	for _, one := range sums[most:] {
		others.milliSeconds, others.doubtful = others.milliSeconds+one.milliSeconds, others.doubtful+one.doubtful
		others.pods, others.running = others.pods+one.pods, others.running+one.running
		others.efficiency.join(&one.efficiency)
	}
	sum := s.told(&others, map[Key]string{})
	return out, &sum
}

func (s *Summing) told(one *sum, keys map[Key]string) Sum {
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
