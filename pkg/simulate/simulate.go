// Package simulate replays a workload against a cluster in memory, through the plugins, the framework and the
// configuration file that run in production. There is no API server, no clock and no chance that a seed does not fix:
// equal inputs give equal decisions.
//
// Pods arrive in order and take their turn through one scheduling cycle each: PreFilter, Filter, Score, Reserve and
// Bind, as kube-scheduler runs them. A pod that fits nowhere waits, and is tried again whenever others have left.
// What it does not do: evict (PostFilter), hold gangs (Permit), and look at a part of the nodes only
// (percentageOfNodesToScore). It links k8s.io/kubernetes, as the scheduler itself does.
package simulate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Cluster is what there is before anything arrives.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are those that run on the nodes already.
	Pods []*corev1.Pod
}

// Arrival is a pod to be placed.
type Arrival struct {
	Pod *corev1.Pod
	// At is when it comes, from the start of the simulation.
	At time.Duration
	// Lifetime is how long it runs once it is placed; 0 is to the end of the simulation.
	Lifetime time.Duration
}

// Candidate is one configuration to try.
type Candidate struct {
	// Name tells results apart.
	Name string
	// Config is kube-scheduler's configuration, with defaults. The profile of each pod is that of its schedulerName.
	Config *config.KubeSchedulerConfiguration
}

// Options of a run. The zero value will do.
type Options struct {
	// Seed decides between nodes of equal score.
	Seed int64
	// Progress, if set, is told after each pod how many of the arrivals have had their first turn.
	Progress func(done int)
}

// Run places arrivals, which must be in order of time, on a cluster. Neither is changed.
func Run(ctx context.Context, cluster Cluster, arrivals []Arrival, candidate Candidate, options Options) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	engine, err := newEngine(ctx, candidate.Config, options.Seed)
	if err != nil {
		return nil, fmt.Errorf("starting the scheduler of %s: %w", candidate.Name, err)
	}
	if err := engine.load(cluster); err != nil {
		return nil, fmt.Errorf("loading the cluster: %w", err)
	}
	replay := newReplay(engine, cluster, candidate.Name, options)
	for i := range arrivals {
		if err := replay.arrive(ctx, &arrivals[i]); err != nil {
			return nil, err
		}
		if options.Progress != nil {
			options.Progress(i + 1)
		}
	}
	if err := replay.drain(ctx); err != nil {
		return nil, err
	}
	return replay.finish(), nil
}
