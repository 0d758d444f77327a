package queueing

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Named is a policy that can be asked for.
type Named struct {
	Name, About string
	// New returns the policy with an empty queue, for one replay.
	New func() Policy
}

// Policies are all that there are.
var Policies = []Named{
	{"fifo", "FIFO, the oldest job blocks", FIFO},
	{"backfill", "FIFO + backfill, no reservation", Backfill},
	{"easy", "EASY backfill, true runtimes", EASY},
	{"easy-nodes", "EASY, reservation on nodes", EASYOnNodes},
	{"sjf", "shortest job first, true runtimes", ShortestFirst},
	{"pod-by-pod", "pod by pod, no gangs", PodByPod},
	{"block-30m", "backfill until the oldest waited 30 min", func() Policy { return BackfillUntil(30 * time.Minute) }},
}

// Learners are policies that learn how long jobs run. They take ten times as long as the others, and are replayed where they are
// named.
var Learners = []Named{
	{"learnt", "EASY on nodes, 95 % quantile of past runtimes", func() Policy { return Learnt(Bets{Quantile: bet}) }},
	{"learnt-own", "the same, nobody learns from others, and no bets after 3 days", func() Policy {
		return Learnt(Bets{Quantile: bet, Own: true, Trust: 72 * time.Hour})
	}},
	{"learnt-short", "learnt, the shortest first beside it", func() Policy { return Learnt(Bets{Quantile: bet, Shortest: true}) }},
	{"learnt-large", "learnt-short, two large jobs are promised, too, and count as 12 hours older", func() Policy {
		return Learnt(Bets{Quantile: bet, Shortest: true, Large: 2, Ahead: 12 * time.Hour})
	}},
	{"learnt-52h", "learnt-short, and no bets after 52 hours", func() Policy { return Learnt(Bets{Quantile: bet, Shortest: true, Trust: 52 * time.Hour}) }},
}

// Select returns the policies of some names, in the order of Policies and then of Learners, or all of Policies for none.
func Select(names []string) ([]Named, error) {
	known := make([]string, 0, len(Policies))
	var selected []Named
	for i, policy := range slices.Concat(Policies, Learners) {
		known = append(known, policy.Name)
		if len(names) == 0 && i < len(Policies) || slices.Contains(names, policy.Name) {
			selected = append(selected, policy)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("policy %q is unknown: use %s", name, strings.Join(known, ", "))
		}
	}
	return selected, nil
}
