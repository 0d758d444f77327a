// Package simulate replays a workload against a cluster in memory, through kube-scheduler's own algorithm, the plugins and
// the configuration file that run in production. There is no API server, no clock and no chance that a seed does not
// fix: equal inputs give equal decisions.
//
// Pods arrive in order and take their turn through one scheduling attempt each: PreFilter, Filter, Score, Reserve, Permit
// and Bind, as kube-scheduler runs them, and PostFilter for a pod that fits nowhere. A pod that finds no place waits, and
// is tried again whenever others have left. A pod that is evicted comes back at once and starts over. The members of a
// gang wait for each other within one moment only. What is left out is the queue: its back-off, and how long an attempt
// takes. It links k8s.io/kubernetes, as the scheduler itself does.
package simulate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// Cluster is the initial state of the cluster.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are those that run on the nodes already.
	Pods []*corev1.Pod
	// Began is when it was in this state. It is the zero time for a cluster whose pods have no times: then it is the start of the simulation.
	Began time.Time
	// Ends is when pods that run already end, by UID, from the start of the simulation. Others stay.
	Ends map[types.UID]time.Duration
	// Groups are the gangs of pods, Budgets what preemption heeds, Classes the priorities that pods name.
	Groups  []*gangsv1.PodGroup
	Budgets []*policyv1.PodDisruptionBudget
	Classes []*schedulingv1.PriorityClass
	// Reservations are those of a cluster at the zero time: the clock of plugins stands still there.
	Reservations []*names.GPUReservation
	// Quotas define how many GPUs namespaces may have, and which pods are evicted for which.
	Quotas []*names.GPUQuota
}

// Arrival is a pod to be placed.
type Arrival struct {
	Pod *corev1.Pod
	// Group is the gang that the pod is a member of. It may be one of the cluster's, or nil.
	Group *gangsv1.PodGroup
	// At is when it comes, from the start of the simulation.
	At time.Duration
	// Lifetime is how long it runs once it is placed; 0 is to the end of the simulation.
	Lifetime time.Duration
	// Until is when it leaves whether it was placed or not, from the start of the simulation; 0 is never.
	Until time.Duration
}

// Candidate is one configuration to try.
type Candidate struct {
	// Name identifies results.
	Name string
	// Config is kube-scheduler's configuration, with defaults. The profile of each pod is that of its schedulerName.
	Config *config.KubeSchedulerConfiguration
}

// Options of a run. The zero value will do.
type Options struct {
	// Seed decides between nodes of equal score. Production has 0.
	Seed int64
	// Progress, if set, is called after each pod with the number of arrivals that have had their first attempt.
	Progress func(done int)
	// Explain, if set, records why pods are where they are.
	Explain *explain.Recorder
	// Start, if set, is the time at which the simulation starts. It gives the scheduler a clock, so that deadlines and reserved starts count, as
	// min-runtimes do. Without it no time passes for the scheduler.
	Start time.Time
	// Past is how long jobs of each namespace have run. It replaces the ledger that a configuration names, which a simulation does not query. nil is
	// unknown.
	Past *survival.History
	// Moves, if set, moves running pods to make room for waiting ones.
	Moves *Moves
}

// Run places arrivals, which must be in order of time, on a cluster. Neither is changed.
func Run(ctx context.Context, cluster Cluster, arrivals []Arrival, candidate Candidate, options Options) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster.Groups = collectGroups(cluster, arrivals)
	engine, err := newEngine(ctx, candidate.Config, cluster, options)
	if err != nil {
		return nil, fmt.Errorf("starting the scheduler of %s: %w", candidate.Name, err)
	}
	replay := newReplay(engine, cluster, arrivals, candidate.Name, options)
	for i := range arrivals {
		if err := replay.handleArrival(ctx, &arrivals[i]); err != nil {
			return nil, err
		}
		if options.Progress != nil {
			options.Progress(i + 1)
		}
	}
	if err := replay.drainEvents(ctx); err != nil {
		return nil, err
	}
	if err := replay.planMoves(ctx, true); err != nil {
		return nil, err
	}
	return replay.finishReplay(), nil
}

// collectGroups returns the gangs of a cluster and of what comes to it, each once.
func collectGroups(cluster Cluster, arrivals []Arrival) []*gangsv1.PodGroup {
	var all []*gangsv1.PodGroup
	known := map[types.NamespacedName]bool{}
	add := func(group *gangsv1.PodGroup) {
		key := types.NamespacedName{Namespace: group.Namespace, Name: group.Name}
		if !known[key] {
			known[key] = true
			all = append(all, group)
		}
	}
	for i := range arrivals {
		if arrivals[i].Group != nil {
			add(arrivals[i].Group)
		}
	}
	for _, group := range cluster.Groups {
		add(group)
	}
	return all
}
